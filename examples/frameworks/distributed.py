"""Train with DistributedDataParallel, or with --shard fully sharded: the data side is the same.

torchrun --nproc-per-node 2 examples/frameworks/distributed.py PACKED [--epochs 2] [--shard]

No DistributedSampler and no set_epoch: each rank gets its cut of each global batch.
"""

import torch
import torch.distributed as dist
from pictures import arguments, network, options
from torch.distributed.fsdp import fully_shard

from stoker.client import Loader


def main() -> None:
    """Train; rank 0 prints the loss of each epoch."""
    given = arguments("shard")
    cuda = torch.cuda.is_available()
    dist.init_process_group("nccl" if cuda else "gloo")
    device = torch.device("cuda", dist.get_node_local_rank()) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    model = network().to(device)
    if given.shard:
        fully_shard(model)
    else:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with Loader(given.place, **options(device=device)) as loader:  # after the process group
        for epoch in range(given.epochs):
            for batch in loader:
                loss = torch.nn.functional.cross_entropy(model(batch.pixel_values), batch.labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            dist.all_reduce(loss)
            if dist.get_rank() == 0:
                print(f"epoch {epoch}: loss {loss.item() / dist.get_world_size():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
