import { describeRequest, resolveRequest, type Answer, type RequestCase } from '../request.ts';
import { forEachOf, runCase } from '../target/case-runner.ts';
import type { Target } from '../target/target.ts';
import type { AcceptedDifferences } from './accepted.ts';
import { differencesOf } from './difference.ts';
import { normalize, type RunContext } from './normalize.ts';
import type { DifferenceReport } from './report.ts';

/** Answers of the reference: sent now, or recorded earlier. `undefined`: a recording does not contain the case. */
export interface Reference {
  readonly context: RunContext;
  answers(each: RequestCase): Promise<readonly Answer[] | undefined>;
}

export interface Limits {
  readonly maxRequests: number;
  readonly seconds: number;
  readonly concurrency: number;
}

export interface ComparisonOptions {
  readonly cases: readonly RequestCase[];
  readonly reference: Reference;
  readonly subject: Target;
  readonly accepted: AcceptedDifferences;
  readonly limits: Limits;
  readonly report: DifferenceReport;
}

/** Sends each case to both sides and reports the differences, until the cases, the requests or the time are used up. */
export async function compareClusters({ cases, reference, subject, accepted, limits, report }: ComparisonOptions): Promise<void> {
  const deadline = performance.now() + limits.seconds * 1000;
  const { names } = reference.context;
  const subjectContext: RunContext = { names, server: subject.server };
  const isOver = () => report.requests >= limits.maxRequests || performance.now() > deadline;
  await forEachOf(cases, { limit: limits.concurrency, isOver }, async (each) => {
    const [expected, actual] = await Promise.all([reference.answers(each), runCase(subject, each, names)]);
    if (expected === undefined) {
      report.missing(each.id);
      return;
    }
    each.steps.forEach((step, at) => {
      const [left, right] = [expected[at], actual[at]];
      if (left === undefined || right === undefined) return;
      report.compared();
      for (const difference of differencesOf(normalize(left, reference.context), normalize(right, subjectContext))) {
        const request = describeRequest(resolveRequest(step, names, []));
        report.add({ caseId: each.id, step: at, request, difference, reason: accepted.reasonFor(each.id, difference) });
      }
    });
  });
  report.end({ cases: cases.length, unusedReasons: accepted.unused });
}
