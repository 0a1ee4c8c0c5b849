import { writtenFloats } from '@oarlock/api/written-floats';

const none: ReadonlySet<string> = new Set();
const places = new WeakMap<object, ReadonlySet<string>>();

/** Remembers of a body which of its whole numbers the client wrote as floats: they are no integers to upstream. */
export function rememberFloats(body: unknown, text: string): void {
  if (typeof body !== 'object' || body === null) return;
  const found = writtenFloats(text);
  if (found.size > 0) places.set(body, found);
}

/** The places in a body as it was sent; none where nobody remembered any. */
export const floatsOf = (body: unknown): ReadonlySet<string> =>
  (typeof body === 'object' && body !== null ? places.get(body) : undefined) ?? none;
