"""Publishes the JPEGs of a folder as a camera's frames, so many a second.

usage: publish_folder.py CAMERA FOLDER [FRAMES_PER_SECOND] [ADDRESS]
"""

import pathlib
import sys
import time

import tidegate


def main(camera: str, folder: str, rate: str = "10", address: str = tidegate.DEFAULT_ADDRESS) -> None:
    """Publishes each file once, in the order of their names."""
    with tidegate.Camera(camera, address=address) as publisher:
        for file in sorted(pathlib.Path(folder).glob("*.jpg")):
            print(file.name, publisher.publish(file.read_bytes()))
            time.sleep(1 / float(rate))


if __name__ == "__main__":
    main(*sys.argv[1:])
