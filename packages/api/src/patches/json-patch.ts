import { parseExact, stringifyExact } from '../json/exact-json.ts';
import { isObject, jsonEqual, own, safeKey, type MutableObject } from '../json/json.ts';
import { badRequest, failure, StatusError } from '../status.ts';

/** The maximum number of operations of one JSON patch. */
export const maxJsonPatchOperations = 10_000;
/** The maximum number of JSON bytes that the `copy` operations of one patch add: each can double the document. */
export const maxJsonPatchCopyBytes = 3 * 1024 * 1024;

class PatchNotApplicableError extends Error {}

interface Operation {
  readonly op: string;
  readonly path: string;
  readonly from?: string;
  readonly value?: unknown;
}

/**
 * Applies an RFC 6902 patch. Does not change its arguments; the result shares unchanged parts with the document.
 * @throws StatusError BadRequest for an invalid patch, RequestEntityTooLarge for too many operations, Invalid (422) for an
 *   operation that does not apply, with the reason as `cause`.
 */
export function applyJsonPatch(document: unknown, patch: unknown): unknown {
  if (!Array.isArray(patch))
    throw badRequest(`json: cannot unmarshal ${isObject(patch) ? 'object' : typeof patch} into Go value of type jsonpatch.Patch`);
  if (patch.length > maxJsonPatchOperations) {
    throw failure(
      'RequestEntityTooLarge',
      `Request entity too large: The allowed maximum operations in a JSON patch is ${maxJsonPatchOperations}, got ${patch.length}`,
    );
  }
  const draft = new PatchDocument(document);
  for (const operation of patch as unknown[]) {
    try {
      draft.apply(readOperation(operation));
    } catch (error) {
      if (!(error instanceof PatchNotApplicableError)) throw error;
      const { status } = failure('Invalid', 'the server rejected our request due to an error in our request', {});
      throw new StatusError(status, { cause: error });
    }
  }
  return draft.root;
}

function readOperation(operation: unknown): Operation {
  if (!isObject(operation)) throw badRequest('json: cannot unmarshal a JSON patch operation that is not an object');
  const [op, path, from] = [own(operation, 'op'), own(operation, 'path'), own(operation, 'from')];
  if (typeof op !== 'string') throw new PatchNotApplicableError('unexpected kind: unknown');
  if (typeof path !== 'string') throw new PatchNotApplicableError(`${op} operation does not apply: missing path`);
  return { op, path, ...(typeof from === 'string' && { from }), ...(Object.hasOwn(operation, 'value') && { value: operation['value'] }) };
}

function pointer(path: string): string[] {
  if (path === '') return [];
  if (!path.startsWith('/')) throw new PatchNotApplicableError(`path ${JSON.stringify(path)} does not start with a slash`);
  return path
    .slice(1)
    .split('/')
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** A mutable document with copy on write: each container is copied once, before its first change. */
class PatchDocument {
  root: unknown;
  readonly #own = new WeakSet<object>();
  #copied = 0;
  constructor(root: unknown) {
    this.root = root;
  }

  apply({ op, path, from, value }: Operation): void {
    const tokens = pointer(path);
    switch (op) {
      case 'add':
      case 'replace':
      case 'test': {
        // Unlike RFC 6902, Kubernetes reads an absent value as null, because Go clients omit empty values
        if (value === undefined && path === '') throw new PatchNotApplicableError(`${op} operation does not apply: missing value`);
        this.#give(op, tokens, value ?? null, path);
        return;
      }
      case 'remove': {
        this.#remove(tokens, path);
        return;
      }
      case 'move':
      case 'copy': {
        if (from === undefined) throw new PatchNotApplicableError(`${op} operation does not apply: missing from`);
        const source = pointer(from);
        if (op === 'move') {
          if (path === from) {
            this.#get(source, from);
            return;
          }
          if (path.startsWith(`${from}/`)) throw new PatchNotApplicableError(`move operation does not apply: ${path} lies within ${from}`);
          const moved = this.#get(source, from);
          this.#remove(source, from);
          this.#add(tokens, moved, path);
        } else this.#copy(source, from, tokens, path);
        return;
      }
      default:
        throw new PatchNotApplicableError(`unexpected kind: ${op}`);
    }
  }

  #give(op: 'add' | 'replace' | 'test', tokens: readonly string[], value: unknown, path: string): void {
    if (op === 'add') this.#add(tokens, value, path);
    else if (op === 'replace') this.#replace(tokens, value, path);
    else this.#test(tokens, value, path);
  }

  #get(tokens: readonly string[], path: string): unknown {
    let value = this.root;
    for (const token of tokens) {
      value = Array.isArray(value)
        ? value[PatchDocument.#index(value, token, path, value.length - 1)]
        : isObject(value)
          ? own(value, token)
          : undefined;
      if (value === undefined) throw new PatchNotApplicableError(`doc is missing path ${JSON.stringify(path)}: missing value`);
    }
    return value;
  }

  static #index(array: readonly unknown[], token: string, path: string, max: number): number {
    const index = /^(0|[1-9][0-9]{0,9})$/.test(token) ? Number(token) : Number.NaN;
    if (!(index <= max))
      throw new PatchNotApplicableError(
        `invalid index ${JSON.stringify(token)} in path ${JSON.stringify(path)} of an array of ${array.length}`,
      );
    return index;
  }

  #writable(value: unknown): unknown {
    if (typeof value !== 'object' || value === null || this.#own.has(value)) return value;
    const copy: object = Array.isArray(value) ? [...(value as unknown[])] : { ...value };
    this.#own.add(copy);
    return copy;
  }

  /** Returns the writable container of the last token. */
  #parent(tokens: readonly string[], path: string): unknown[] | MutableObject {
    this.#get(tokens.slice(0, -1), path);
    this.root = this.#writable(this.root);
    let node = this.root as unknown[] | MutableObject;
    for (const token of tokens.slice(0, -1)) {
      const child: unknown = this.#writable((node as MutableObject)[token]);
      (node as MutableObject)[token] = child;
      node = child as unknown[] | MutableObject;
    }
    if (typeof node !== 'object' || node === null)
      throw new PatchNotApplicableError(`doc is missing path ${JSON.stringify(path)}: missing value`);
    return node;
  }

  #add(tokens: readonly string[], value: unknown, path: string): void {
    const last = tokens.at(-1);
    if (last === undefined) {
      this.root = value;
      return;
    }
    const parent = this.#parent(tokens, path);
    if (!Array.isArray(parent)) parent[safeKey(last)] = value;
    else if (last === '-') parent.push(value);
    else parent.splice(PatchDocument.#index(parent, last, path, parent.length), 0, value);
  }

  #replace(tokens: readonly string[], value: unknown, path: string): void {
    this.#get(tokens, path);
    const last = tokens.at(-1);
    if (last === undefined) {
      this.root = value;
      return;
    }
    (this.#parent(tokens, path) as MutableObject)[last] = value;
  }

  #remove(tokens: readonly string[], path: string): void {
    this.#get(tokens, path);
    const last = tokens.at(-1);
    if (last === undefined) throw new PatchNotApplicableError('remove operation does not apply: the whole document cannot be removed');
    const parent = this.#parent(tokens, path);
    if (Array.isArray(parent)) parent.splice(Number(last), 1);
    else delete parent[last];
  }

  #test(tokens: readonly string[], value: unknown, path: string): void {
    let actual: unknown;
    try {
      actual = this.#get(tokens, path);
    } catch (error) {
      // An absent value equals null.
      if (!(error instanceof PatchNotApplicableError) || value !== null) throw error;
      return;
    }
    if (!jsonEqual(actual, value)) throw new PatchNotApplicableError(`testing value ${path} failed: test failed`);
  }

  #copy(source: readonly string[], from: string, tokens: readonly string[], path: string): void {
    const text = stringifyExact(this.#get(source, from));
    this.#copied += text.length;
    if (this.#copied > maxJsonPatchCopyBytes) {
      throw new PatchNotApplicableError(
        `Unable to complete the copy, the accumulated size increase of copy is ${this.#copied}, exceeding the limit ${maxJsonPatchCopyBytes}`,
      );
    }
    this.#add(tokens, parseExact(text), path);
  }
}
