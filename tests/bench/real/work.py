"""work.py - a fixed piece of work for Python: objects, strings, containers"""

import json
import re
import sys


class Node:
    def __init__(self, key, left=None, right=None):
        self.key, self.left, self.right = key, left, right


def insert(node, key):
    if node is None:
        return Node(key)
    if key < node.key:
        node.left = insert(node.left, key)
    else:
        node.right = insert(node.right, key)
    return node


def depth(node):
    return 0 if node is None else 1 + max(depth(node.left), depth(node.right))


def numbers(n, seed):
    for _ in range(n):
        seed = (seed * 1103515245 + 12345) % 2147483648
        yield seed


def words(n):
    return [f"{x % 5000:x}-{x % 37}" for x in numbers(n, 7)]


def main():
    n = int(sys.argv[1])
    text = " ".join(words(n))
    counts = {}
    for word in re.findall(r"[0-9a-f]+-\d+", text):
        counts[word] = counts.get(word, 0) + 1
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    tree = None
    for key in numbers(n // 10, 3):
        tree = insert(tree, key)
    records = [{"id": i, "name": f"name {i}", "tags": [str(i)] * (i % 5)}
               for i in range(n // 10)]
    again = json.loads(json.dumps(records))
    big = 1
    for i in range(1, n // 200):
        big *= i
    lines = [line.split("-") for line in text.split()]
    print(len(counts), ranked[:3], depth(tree), again == records,
          len(str(big)) if n < 100000 else big.bit_length(), len(lines))


main()
