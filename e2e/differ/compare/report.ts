import type { Difference } from './difference.ts';

export interface FoundDifference {
  readonly caseId: string;
  /** Index of the request in its case. */
  readonly step: number;
  readonly request: string;
  readonly difference: Difference;
  /** Why the difference is accepted; undefined if it is not. */
  readonly reason: string | undefined;
}

interface DifferenceClass {
  count: number;
  readonly first: FoundDifference;
}

const maxClasses = 200;

/** Counts requests and groups differences: those of the same kind of case, object kind, part and field form one class. */
export class DifferenceReport {
  readonly #print: (line: string) => void;
  readonly #verbose: boolean;
  readonly #classes = new Map<string, DifferenceClass>();
  readonly #missing: string[] = [];
  readonly #acceptedReasons = new Map<string, number>();
  #requests = 0;
  #unaccepted = 0;

  constructor(print: (line: string) => void, options: { readonly verbose: boolean }) {
    this.#print = print;
    this.#verbose = options.verbose;
  }

  /** Number of requests whose answers were compared. */
  get requests(): number {
    return this.#requests;
  }
  /** Number of differences without a reason. */
  get unaccepted(): number {
    return this.#unaccepted;
  }

  compared(): void {
    this.#requests += 1;
  }
  missing(caseId: string): void {
    this.#missing.push(caseId);
  }

  add(found: FoundDifference): void {
    if (found.reason !== undefined) {
      this.#acceptedReasons.set(found.reason, (this.#acceptedReasons.get(found.reason) ?? 0) + 1);
      return;
    }
    this.#unaccepted += 1;
    const { caseId, difference } = found;
    const [what = '', kind = ''] = caseId.split('/');
    const name = [what, kind, difference.part, difference.path].filter((part) => part !== '').join(' ');
    const known = this.#classes.get(name);
    if (known === undefined) this.#classes.set(name, { count: 1, first: found });
    else known.count += 1;
    if (this.#verbose) this.#print(`  ${textOf(found)}`);
  }

  /** Prints the classes, most frequent first, each with one example, and the totals. */
  end({ cases, unusedReasons }: { readonly cases: number; readonly unusedReasons: readonly string[] }): void {
    const sorted = [...this.#classes].sort(([, a], [, b]) => b.count - a.count);
    for (const [name, { count, first }] of sorted.slice(0, maxClasses)) this.#print(`✖ ${count} x ${name}\n  ${textOf(first)}`);
    if (sorted.length > maxClasses) this.#print(`... and ${sorted.length - maxClasses} more classes`);
    for (const [reason, count] of this.#acceptedReasons) this.#print(`- ${count} accepted: ${reason}`);
    if (this.#verbose) for (const reason of unusedReasons) this.#print(`- not met in this run: ${reason}`);
    if (this.#missing.length > 0) this.#print(`- ${this.#missing.length} cases are not in the recording, such as ${this.#missing[0]}`);
    const accepted = [...this.#acceptedReasons.values()].reduce((sum, count) => sum + count, 0);
    this.#print(
      `${this.#requests} requests of ${cases} cases, ${this.#unaccepted} differences in ${sorted.length} classes, ${accepted} accepted`,
    );
  }
}

const textOf = ({ caseId, step, request, difference: { reference, subject } }: FoundDifference): string =>
  `${caseId} step ${step}: ${request}\n    reference: ${reference}\n    subject:   ${subject}`;
