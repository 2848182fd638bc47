"""A small U-shaped network: classes per pixel, and the label of the whole image."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Sequential):
    """Two 3x3 convolutions, each normalized."""

    def __init__(self, inputs: int, outputs: int) -> None:
        layers: list[nn.Module] = []
        for channels in (inputs, outputs):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        super().__init__(*layers)


class Network(nn.Module):
    """Maps images (B, 3, H, W) float32 to (pixel logits (B, C, H, W), label logits (B, L)).

    H and W are multiples of 8. The first convolution halves the image, the last step doubles it.
    """

    def __init__(self, pixel_classes: int, labels: int, width: int = 12) -> None:
        super().__init__()
        widths = (width, 2 * width, 4 * width)
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.down = nn.ModuleList(
            Block(i, o) for i, o in zip((width, *widths), widths, strict=False)
        )
        self.up = nn.ModuleList(
            Block(i + o, o) for i, o in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )
        self.pixels = nn.Conv2d(width, pixel_classes, 1)
        self.labels = nn.Linear(widths[-1], labels)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Run the network."""
        value, skips = self.stem(image), []
        for number, block in enumerate(self.down):
            value = block(functional.max_pool2d(value, 2) if number else value)
            skips.append(value)
        label = self.labels(value.mean(dim=(2, 3)))
        for block, skip in zip(self.up, skips[-2::-1], strict=True):
            value = functional.interpolate(value, scale_factor=2.0)
            value = block(torch.cat([value, skip], dim=1))
        pixels = functional.interpolate(self.pixels(value), scale_factor=2.0, mode="bilinear")
        return pixels, label
