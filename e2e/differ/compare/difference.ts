import { isFields } from '../request.ts';
import type { NormalAnswer } from './normalize.ts';

export type DifferencePart = 'code' | 'header' | 'warning' | 'body';

/** One difference between two answers to the same request. */
export interface Difference {
  readonly part: DifferencePart;
  /** The header's name, or the field's path with `*` for list indexes; empty for the code and for the body as a whole. */
  readonly path: string;
  /** JSON text; `absent` if there is no value. */
  readonly reference: string;
  readonly subject: string;
}

const maxDifferences = 50;

/** Returns the differences of two answers. If the codes differ, only the codes with their messages are reported: the bodies differ as a consequence. */
export function differencesOf(reference: NormalAnswer, subject: NormalAnswer): readonly Difference[] {
  if (reference.status !== subject.status) return [{ part: 'code', path: '', reference: codeText(reference), subject: codeText(subject) }];
  const found: Difference[] = [];
  for (const name of new Set([...Object.keys(reference.headers), ...Object.keys(subject.headers)]))
    compareValues({ part: 'header', path: name, found }, reference.headers[name], subject.headers[name]);
  compareWarnings(reference.warnings, subject.warnings, found);
  compareValues({ part: 'body', path: '', found }, reference.body, subject.body);
  return found.slice(0, maxDifferences);
}

function codeText({ status, body }: NormalAnswer): string {
  const message = isFields(body) && body['kind'] === 'Status' ? body['message'] : undefined;
  return message === undefined ? String(status) : `${status} ${JSON.stringify(message)}`;
}

/** Reports each warning that only one side has; if both have the same ones, their order. */
function compareWarnings(reference: readonly string[], subject: readonly string[], found: Difference[]): void {
  const before = found.length;
  for (const warning of reference)
    if (!subject.includes(warning)) found.push({ part: 'warning', path: '', reference: warning, subject: 'absent' });
  for (const warning of subject)
    if (!reference.includes(warning)) found.push({ part: 'warning', path: '', reference: 'absent', subject: warning });
  if (found.length === before && reference.join('\n') !== subject.join('\n'))
    found.push({ part: 'warning', path: 'order', reference: reference.join('; '), subject: subject.join('; ') });
}

interface Place {
  readonly part: DifferencePart;
  readonly path: string;
  readonly found: Difference[];
}

function compareValues(place: Place, reference: unknown, subject: unknown): void {
  const { part, path, found } = place;
  if (Array.isArray(reference) && Array.isArray(subject) && reference.length === subject.length) {
    reference.forEach((each, index) => compareValues({ part, path: `${path}[*]`, found }, each, subject[index]));
    return;
  }
  if (isFields(reference) && isFields(subject)) {
    for (const key of new Set([...Object.keys(reference), ...Object.keys(subject)]))
      compareValues({ part, path: path === '' ? key : `${path}.${key}`, found }, reference[key], subject[key]);
    return;
  }
  if (Object.is(reference, subject)) return;
  const [left, right] = [textOf(reference), textOf(subject)];
  let same = 0;
  while (same < left.length && left[same] === right[same]) same += 1;
  found.push({ part, path, reference: shortened(left, same), subject: shortened(right, same) });
}

const textOf = (value: unknown): string => (value === undefined ? 'absent' : JSON.stringify(value));

const maxText = 600;

/** Returns a long text from a little before the place where it differs. */
function shortened(text: string, differsAt: number): string {
  if (text.length <= maxText) return text;
  const from = Math.max(0, differsAt - 200);
  return `${from > 0 ? '...' : ''}${text.slice(from, from + maxText)}${text.length > from + maxText ? '...' : ''}`;
}
