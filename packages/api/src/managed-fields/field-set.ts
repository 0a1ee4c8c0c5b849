import type { PathElement } from './internal/field-path.ts';

type Members = ReadonlySet<PathElement>;
type Children = ReadonlyMap<PathElement, FieldSet>;

/** The maximum number of paths of a set that caches may keep. A pod has about a hundred paths. */
const maxSmall = 4096;

const noMembers: Members = new Set();
const noChildren: Children = new Map();

/**
 * A set of paths into an object, as a tree (fieldpath.Set upstream). A path can be a member independently of longer ones. Immutable:
 * operations return one of their operands if the result equals it, so an identity check detects that nothing changed.
 */
export class FieldSet {
  readonly members: Members;
  /** The subsets by path element. No subset is empty. */
  readonly children: Children;

  constructor(members: Members, children: Children) {
    this.members = members;
    this.children = children;
  }

  static of(...paths: readonly (readonly PathElement[])[]): FieldSet {
    const draft = new FieldSetBuilder();
    for (const path of paths) draft.insert(path);
    return draft.build();
  }

  get empty(): boolean {
    return this.members.size === 0 && this.children.size === 0;
  }

  /** The number of paths. */
  get size(): number {
    let size = this.members.size;
    for (const child of this.children.values()) size += child.size;
    return size;
  }

  /** True if the set is small enough for caches that outlive its object. */
  get small(): boolean {
    return this.#remainingAfter(maxSmall) >= 0;
  }
  #remainingAfter(left: number): number {
    let remaining = left - this.members.size;
    for (const child of this.children.values()) {
      if (remaining < 0) return remaining;
      remaining = child.#remainingAfter(remaining);
    }
    return remaining;
  }

  has(path: readonly PathElement[]): boolean {
    const [first, ...rest] = path;
    if (first === undefined) return false;
    return rest.length === 0 ? this.members.has(first) : this.children.get(first)?.has(rest) === true;
  }

  /** Returns the subset of the paths below an element, relative to the element. */
  withPrefix(element: PathElement): FieldSet {
    return this.children.get(element) ?? emptySet;
  }

  union(other: FieldSet): FieldSet {
    if (this === other || other.empty) return this;
    if (this.empty) return other;
    let members: Set<PathElement> | undefined;
    for (const member of other.members) if (!this.members.has(member)) (members ??= new Set(this.members)).add(member);
    let children: Map<PathElement, FieldSet> | undefined;
    for (const [element, child] of other.children) {
      const own = this.children.get(element);
      const both = own === undefined ? child : own.union(child);
      if (both !== own) (children ??= new Map(this.children)).set(element, both);
    }
    return members === undefined && children === undefined ? this : new FieldSet(members ?? this.members, children ?? this.children);
  }

  intersection(other: FieldSet): FieldSet {
    if (this === other) return this;
    if (this.empty || other.empty) return emptySet;
    const draft = new FieldSetBuilder();
    for (const member of this.members) if (other.members.has(member)) draft.add(member);
    for (const [element, child] of this.children) {
      const match = other.children.get(element);
      if (match !== undefined) draft.put(element, child.intersection(match));
    }
    return draft.build();
  }

  /** Returns the paths that `other` does not contain. A path in `other` does not remove its parents or children. */
  difference(other: FieldSet): FieldSet {
    return this.#without(other, false);
  }

  /** Returns the paths that `other` does not contain and that are not below a path in `other`. */
  recursiveDifference(other: FieldSet): FieldSet {
    return this.#without(other, true);
  }

  #without(other: FieldSet, recursive: boolean): FieldSet {
    if (this.empty || other.empty) return this;
    if (this === other) return emptySet;
    let members: Set<PathElement> | undefined;
    for (const member of other.members) if (this.members.has(member)) (members ??= new Set(this.members)).delete(member);
    let children: Map<PathElement, FieldSet> | undefined;
    if (recursive) for (const member of other.members) if (this.children.has(member)) (children ??= new Map(this.children)).delete(member);
    for (const [element, gone] of other.children) {
      const own = (children ?? this.children).get(element);
      if (own === undefined) continue;
      const rest = own.#without(gone, recursive);
      if (rest === own) continue;
      children ??= new Map(this.children);
      if (rest.empty) children.delete(element);
      else children.set(element, rest);
    }
    if (members === undefined && children === undefined) return this;
    const rest = new FieldSet(members ?? this.members, children ?? this.children);
    return rest.empty ? emptySet : rest;
  }

  equals(other: FieldSet): boolean {
    if (this === other) return true;
    if (this.members.size !== other.members.size || this.children.size !== other.children.size) return false;
    for (const member of this.members) if (!other.members.has(member)) return false;
    for (const [element, child] of this.children) {
      const match = other.children.get(element);
      if (match === undefined || !child.equals(match)) return false;
    }
    return true;
  }

  /** Yields all paths, parents before their children. */
  *paths(prefix: readonly PathElement[] = []): Generator<readonly PathElement[]> {
    for (const member of this.members) yield [...prefix, member];
    for (const [element, child] of this.children) yield* child.paths([...prefix, element]);
  }
}

export const emptySet = new FieldSet(noMembers, noChildren);

/** A mutable builder of a set. */
export class FieldSetBuilder {
  #members: Set<PathElement> | undefined;
  #children: Map<PathElement, FieldSet | FieldSetBuilder> | undefined;

  get empty(): boolean {
    return this.#members === undefined && this.#children === undefined;
  }

  add(member: PathElement): void {
    (this.#members ??= new Set()).add(member);
  }

  /** Sets the paths below an element, and replaces paths that were set before. An empty set is ignored. */
  put(element: PathElement, set: FieldSet): void {
    if (!set.empty) (this.#children ??= new Map()).set(element, set);
  }

  insert(path: readonly PathElement[]): void {
    const last = path[path.length - 1];
    if (last !== undefined) this.#at(path, path.length - 1).add(last); // the root path is not a member: no manager owns a whole object
  }

  #at(path: readonly PathElement[], length: number, from = 0): FieldSetBuilder {
    return from === length ? this : this.#draft(path[from] as PathElement).#at(path, length, from + 1);
  }

  #draft(element: PathElement): FieldSetBuilder {
    this.#children ??= new Map();
    const child = this.#children.get(element);
    if (child instanceof FieldSetBuilder) return child;
    const draft = new FieldSetBuilder();
    if (child !== undefined) {
      draft.#members = new Set(child.members);
      draft.#children = new Map(child.children);
    }
    this.#children.set(element, draft);
    return draft;
  }

  /** Adds a set of paths below a path, in addition to the existing paths. */
  graft(path: readonly PathElement[], set: FieldSet): void {
    if (set.empty) return;
    const at = this.#at(path, path.length);
    for (const member of set.members) at.add(member);
    for (const [element, child] of set.children) (at.#children ??= new Map()).set(element, child);
  }

  /** Returns the set that was built. The builder must not be used afterwards. */
  build(): FieldSet {
    if (this.empty) return emptySet;
    if (this.#children !== undefined)
      for (const [element, child] of this.#children) if (child instanceof FieldSetBuilder) this.#children.set(element, child.build());
    return new FieldSet(this.#members ?? noMembers, (this.#children as Map<PathElement, FieldSet> | undefined) ?? noChildren);
  }
}
