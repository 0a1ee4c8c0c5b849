import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { InputError } from '../request.ts';
import type { Difference } from './difference.ts';

const expression = z.string().refine(isExpression, 'is not a regular expression');

/** Every expression must match the whole text. An absent one matches any. */
const entrySchema = z.strictObject({
  reason: z.string().min(20),
  case: expression.optional(),
  part: z.enum(['code', 'header', 'warning', 'body']),
  path: expression.optional(),
  reference: expression.optional(),
  subject: expression.optional(),
});
const fileSchema = z.strictObject({ version: z.literal(1), differences: z.array(entrySchema) });

function isExpression(text: string): boolean {
  try {
    new RegExp(text);
    return true;
  } catch {
    return false;
  }
}

interface Entry {
  readonly reason: string;
  readonly part: Difference['part'];
  readonly case: RegExp;
  readonly path: RegExp;
  readonly reference: RegExp;
  readonly subject: RegExp;
}

/** Differences that are intended, each with a reason. */
export class AcceptedDifferences {
  readonly #entries: readonly Entry[];
  readonly #used = new Set<Entry>();

  constructor(entries: readonly Entry[]) {
    this.#entries = entries;
  }

  /** Reads a file of accepted differences. @throws InputError with the place of every fault in it */
  static async load(file: string): Promise<AcceptedDifferences> {
    const parsed = fileSchema.safeParse(JSON.parse(await readFile(file, 'utf8')));
    if (!parsed.success) throw new InputError(`${file}: ${z.prettifyError(parsed.error)}`);
    const whole = (text = '[^]*') => new RegExp(`^(?:${text})$`);
    return new AcceptedDifferences(
      parsed.data.differences.map((entry) => ({
        reason: entry.reason,
        part: entry.part,
        case: whole(entry.case),
        path: whole(entry.path),
        reference: whole(entry.reference),
        subject: whole(entry.subject),
      })),
    );
  }

  /** Returns why a difference is accepted, or undefined. */
  reasonFor(caseId: string, difference: Difference): string | undefined {
    const entry = this.#entries.find(
      (each) =>
        each.part === difference.part &&
        each.case.test(caseId) &&
        each.path.test(difference.path) &&
        each.reference.test(difference.reference) &&
        each.subject.test(difference.subject),
    );
    if (entry !== undefined) this.#used.add(entry);
    return entry?.reason;
  }

  /** Reasons of entries that matched no difference so far. */
  get unused(): readonly string[] {
    return this.#entries.filter((entry) => !this.#used.has(entry)).map(({ reason }) => reason);
  }
}
