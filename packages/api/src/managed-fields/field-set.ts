import type { PathElement } from './field-path.ts';

type Members = ReadonlySet<PathElement>;
type Children = ReadonlyMap<PathElement, FieldSet>;

/** Paths. A pod has some hundred. */
const maxSmall = 4096;

const noMembers: Members = new Set();
const noChildren: Children = new Map();

/**
 * A set of paths into an object, as a tree. A path can be a member whether or not longer ones are. Sets are never changed: operations
 * give back one of their operands where the result is equal to it, so that an identity check tells that nothing changed.
 */
export class FieldSet {
  readonly members: Members;
  /** No child is empty. */
  readonly children: Children;

  constructor(members: Members, children: Children) {
    this.members = members;
    this.children = children;
  }

  static of(...paths: readonly (readonly PathElement[])[]): FieldSet {
    const draft = new FieldSetDraft();
    for (const path of paths) draft.insert(path);
    return draft.done();
  }

  get empty(): boolean {
    return this.members.size === 0 && this.children.size === 0;
  }

  /** How many paths. */
  get size(): number {
    let size = this.members.size;
    for (const child of this.children.values()) size += child.size;
    return size;
  }

  /** No larger than most: what is larger is not kept beyond the object that it is of. */
  get small(): boolean {
    return this.#room(maxSmall) >= 0;
  }
  #room(left: number): number {
    let room = left - this.members.size;
    for (const child of this.children.values()) {
      if (room < 0) return room;
      room = child.#room(room);
    }
    return room;
  }

  has(path: readonly PathElement[]): boolean {
    const [first, ...rest] = path;
    if (first === undefined) return false;
    return rest.length === 0 ? this.members.has(first) : this.children.get(first)?.has(rest) === true;
  }

  /** The paths below an element. */
  below(element: PathElement): FieldSet {
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
    const draft = new FieldSetDraft();
    for (const member of this.members) if (other.members.has(member)) draft.add(member);
    for (const [element, child] of this.children) {
      const match = other.children.get(element);
      if (match !== undefined) draft.put(element, child.intersection(match));
    }
    return draft.done();
  }

  /** The paths that are not in `other`; a path stays when only its parents or children are there. */
  difference(other: FieldSet): FieldSet {
    return this.#without(other, false);
  }

  /** As `difference`; what lies below a path of `other` goes too. */
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

  /** All paths, parents before their children. */
  *paths(prefix: readonly PathElement[] = []): Generator<readonly PathElement[]> {
    for (const member of this.members) yield [...prefix, member];
    for (const [element, child] of this.children) yield* child.paths([...prefix, element]);
  }
}

export const emptySet = new FieldSet(noMembers, noChildren);

/** A set in the making. */
export class FieldSetDraft {
  #members: Set<PathElement> | undefined;
  #children: Map<PathElement, FieldSet | FieldSetDraft> | undefined;

  get empty(): boolean {
    return this.#members === undefined && this.#children === undefined;
  }

  add(member: PathElement): void {
    (this.#members ??= new Set()).add(member);
  }

  /** What lies below an element; replaces what was there. Empty sets are left out. */
  put(element: PathElement, set: FieldSet): void {
    if (!set.empty) (this.#children ??= new Map()).set(element, set);
  }

  insert(path: readonly PathElement[]): void {
    const last = path[path.length - 1];
    if (last !== undefined) this.#at(path, path.length - 1).add(last); // nobody owns the object as a whole
  }

  #at(path: readonly PathElement[], length: number, from = 0): FieldSetDraft {
    return from === length ? this : this.#draft(path[from] as PathElement).#at(path, length, from + 1);
  }

  #draft(element: PathElement): FieldSetDraft {
    this.#children ??= new Map();
    const child = this.#children.get(element);
    if (child instanceof FieldSetDraft) return child;
    const draft = new FieldSetDraft();
    if (child !== undefined) {
      draft.#members = new Set(child.members);
      draft.#children = new Map(child.children);
    }
    this.#children.set(element, draft);
    return draft;
  }

  /** Puts a whole set below a path, beside what is there. */
  graft(path: readonly PathElement[], set: FieldSet): void {
    if (set.empty) return;
    const at = this.#at(path, path.length);
    for (const member of set.members) at.add(member);
    for (const [element, child] of set.children) (at.#children ??= new Map()).set(element, child);
  }

  /** The draft is not to be used after this. */
  done(): FieldSet {
    if (this.empty) return emptySet;
    if (this.#children !== undefined)
      for (const [element, child] of this.#children) if (child instanceof FieldSetDraft) this.#children.set(element, child.done());
    return new FieldSet(this.#members ?? noMembers, (this.#children as Map<PathElement, FieldSet> | undefined) ?? noChildren);
  }
}
