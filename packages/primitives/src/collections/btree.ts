/** Maximum entries of a node. With this size, splitting a node takes well under a microsecond. */
const capacity = 64;

interface Leaf<V> {
  readonly leaf: true;
  keys: string[];
  values: V[];
}
/** `separators[i]` is greater than every key of `children[i]`, and not greater than any key of `children[i + 1]`. */
interface Inner<V> {
  readonly leaf: false;
  separators: string[];
  children: Node<V>[];
  size: number;
}
type Node<V> = Leaf<V> | Inner<V>;

const sizeOf = (node: Node<unknown>) => (node.leaf ? node.keys.length : node.size);
const widthOf = (node: Node<unknown>) => (node.leaf ? node.keys.length : node.children.length);

/**
 * A map sorted by key (`<` on strings) that supports ranks: a B+ tree in which every inner node stores the number of entries
 * below it. Insertion, deletion and `rank` take O(log n); an ascent takes O(log n) plus the number of entries visited.
 */
export class BTree<V> {
  #root: Node<V> = { leaf: true, keys: [], values: [] };
  /** Key comparisons so far, so that tests can bound the cost of an operation. */
  steps = 0;

  get size(): number {
    return sizeOf(this.#root);
  }

  /** Sets the value of a key. */
  set(key: string, value: V): void {
    const right = this.#insert(this.#root, key, value);
    if (right)
      this.#root = {
        leaf: false,
        separators: [right.separator],
        children: [this.#root, right.node],
        size: sizeOf(this.#root) + sizeOf(right.node),
      };
  }

  delete(key: string): boolean {
    const deleted = this.#remove(this.#root, key);
    if (!this.#root.leaf && this.#root.children.length === 1) this.#root = this.#root.children[0] ?? this.#root;
    return deleted;
  }

  /** Returns the number of keys that sort before `key`; for `undefined` the number of all keys. */
  rank(key: string | undefined): number {
    if (key === undefined) return this.size;
    let node = this.#root;
    let before = 0;
    while (!node.leaf) {
      const index = this.#child(node, key);
      for (let at = 0; at < index; at += 1) before += sizeOf(node.children[at] as Node<V>);
      node = node.children[index] as Node<V>;
    }
    return before + this.#position(node.keys, key);
  }

  /** Visits the entries from the first key that is not less than `key`, in order, until `visit` returns false. */
  ascendFrom(key: string, visit: (value: V, key: string) => boolean): void {
    this.#visit(this.#root, key, visit);
  }

  #visit(node: Node<V>, key: string | undefined, visit: (value: V, key: string) => boolean): boolean {
    if (node.leaf) {
      for (let at = key === undefined ? 0 : this.#position(node.keys, key); at < node.keys.length; at += 1) {
        this.steps += 1;
        if (!visit(node.values[at] as V, node.keys[at] as string)) return false;
      }
      return true;
    }
    const first = key === undefined ? 0 : this.#child(node, key);
    for (let at = first; at < node.children.length; at += 1) {
      if (!this.#visit(node.children[at] as Node<V>, at === first ? key : undefined, visit)) return false;
    }
    return true;
  }

  /** Returns the first index whose key is not less than `key`. */
  #position(keys: readonly string[], key: string): number {
    let low = 0;
    for (let high = keys.length; low < high; ) {
      const middle = (low + high) >> 1;
      this.steps += 1;
      if ((keys[middle] as string) < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Returns the index of the child whose range contains `key`. */
  #child({ separators }: Inner<V>, key: string): number {
    const index = this.#position(separators, key);
    return separators[index] === key ? index + 1 : index;
  }

  /** Inserts into the subtree. Returns the new right sibling if the node was split. */
  #insert(node: Node<V>, key: string, value: V): { separator: string; node: Node<V> } | undefined {
    if (node.leaf) {
      const at = this.#position(node.keys, key);
      if (node.keys[at] === key) {
        node.values[at] = value;
        return undefined;
      }
      node.keys.splice(at, 0, key);
      node.values.splice(at, 0, value);
      if (node.keys.length <= capacity) return undefined;
      const right: Leaf<V> = { leaf: true, keys: node.keys.splice(capacity / 2), values: node.values.splice(capacity / 2) };
      return { separator: right.keys[0] as string, node: right };
    }
    const at = this.#child(node, key);
    const child = node.children[at] as Node<V>;
    const before = sizeOf(child);
    const split = this.#insert(child, key, value);
    if (!split) {
      node.size += sizeOf(child) - before;
      return undefined;
    }
    node.separators.splice(at, 0, split.separator);
    node.children.splice(at + 1, 0, split.node);
    node.size += 1;
    if (node.children.length <= capacity) return undefined;
    const half = capacity / 2;
    const children = node.children.splice(half);
    const separators = node.separators.splice(half);
    const separator = node.separators.pop() as string;
    const size = children.reduce((sum, each) => sum + sizeOf(each), 0);
    node.size -= size;
    return { separator, node: { leaf: false, separators, children, size } };
  }

  #remove(node: Node<V>, key: string): boolean {
    if (node.leaf) {
      const at = this.#position(node.keys, key);
      if (node.keys[at] !== key) return false;
      node.keys.splice(at, 1);
      node.values.splice(at, 1);
      return true;
    }
    const at = this.#child(node, key);
    const child = node.children[at] as Node<V>;
    if (!this.#remove(child, key)) return false;
    node.size -= 1;
    if (widthOf(child) < capacity / 4 && node.children.length > 1) this.#merge(node, at > 0 ? at - 1 : 0);
    return true;
  }

  /** Merges the children at `at` and `at + 1` if they fit into one node. */
  #merge(node: Inner<V>, at: number): void {
    const left = node.children[at] as Node<V>;
    const right = node.children[at + 1] as Node<V>;
    if (widthOf(left) + widthOf(right) > capacity) return;
    if (left.leaf && right.leaf) {
      left.keys.push(...right.keys);
      left.values.push(...right.values);
    } else if (!left.leaf && !right.leaf) {
      left.separators.push(node.separators[at] as string, ...right.separators);
      left.children.push(...right.children);
      left.size += right.size;
    }
    node.separators.splice(at, 1);
    node.children.splice(at + 1, 1);
  }
}
