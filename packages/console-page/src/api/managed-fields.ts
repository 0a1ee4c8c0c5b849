import { backslash, closes, opens, quote } from './json-codes.ts';

const field = '"managedFields":[';

/** Returns the position after the array that begins before `from`; -1 if the array does not end. */
function endOfArray(json: string, from: number): number {
  let depth = 1;
  let isInString = false;
  for (let at = from; at < json.length; at += 1) {
    const code = json.charCodeAt(at);
    if (isInString) {
      if (code === backslash) at += 1;
      else if (code === quote) isInString = false;
    } else if (code === quote) isInString = true;
    else if (opens(code)) depth += 1;
    else if (closes(code) && (depth -= 1) === 0) return at + 1;
  }
  return -1;
}

/**
 * Parses JSON of the API server, and leaves out the managed fields. They are most of the bytes of a pod, and views of many objects do not show them: parsed, they
 * would be most of the garbage of a watch. The name of the field cannot match within a string, where its quotes are escaped.
 */
export function parseWithoutManagedFields<T>(json: string): T {
  let rest = json;
  let kept = '';
  for (let at = rest.indexOf(field); at >= 0; at = rest.indexOf(field)) {
    const from = at + field.length;
    const end = endOfArray(rest, from);
    if (end < 0) break; // incomplete: the parser reports it
    kept += `${rest.slice(0, from)}]`;
    rest = rest.slice(end);
  }
  return JSON.parse(kept + rest) as T;
}
