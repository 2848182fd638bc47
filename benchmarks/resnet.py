"""ResNet, written here so that every contender trains the same network without torchvision."""

from torch import nn

RESNET50 = (3, 4, 6, 3)


class Bottleneck(nn.Module):
    """Three convolutions, the middle one with the stride, beside a shortcut."""

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        outside = 4 * width
        self.main = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, outside, 1, bias=False), nn.BatchNorm2d(outside),
        )  # fmt: skip
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, images):  # type: ignore[no-untyped-def]
        return nn.functional.relu(self.main(images) + self.shortcut(images), inplace=True)


def resnet(blocks: tuple[int, ...] = RESNET50, width: int = 64, classes: int = 1000) -> nn.Module:
    """Return a network with that number of blocks in each stage; ResNet-50 by default."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
        nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    inside = width
    for stage, count in enumerate(blocks):
        for number in range(count):
            stride = 2 if stage and not number else 1
            layers.append(Bottleneck(inside, width * 2**stage, stride))
            inside = 4 * width * 2**stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))
