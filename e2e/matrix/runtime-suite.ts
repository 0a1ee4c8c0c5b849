import { afterAll, describe, it } from 'vitest';
import type { RuntimeName } from '../harness/composition.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { combinations, type Combination } from './combinations.ts';
import { journeyNames, journeys, type Matrix } from './journeys.ts';
import { list, publish, Results, table } from './results.ts';

/** Every journey with every combination that includes a runtime. Call it at the top of a test file. */
export async function runtimeSuite(runtime: RuntimeName): Promise<void> {
  const rows = (await combinations()).filter((each) => each.runtime === runtime);
  const matrix = { machine: Machine.use(), results: new Results() };
  afterAll(() => publishMatrix(runtime, rows, matrix.results));
  for (const row of rows) declare(row, matrix);
}

function declare(combination: Combination, matrix: Matrix): void {
  const { name, verdict, because } = combination;
  const title = verdict === 'runs' ? name : `${name} (${verdict}: ${because})`;
  if (verdict === 'runs') describe(title, () => journeys(combination, matrix));
  else if (verdict === 'unavailable' && everythingIsNeeded)
    describe(title, () => {
      it('is available', () => {
        throw new Error(`every component must be present on CI: ${because}`);
      });
    });
  else
    describe(title, () => {
      it.skip('does not run', () => {});
    });
}

function publishMatrix(runtime: RuntimeName, rows: readonly Combination[], results: Results): Promise<void> {
  const ran = rows.filter(({ verdict }) => verdict === 'runs').map(({ name }) => name);
  const rest = rows.filter(({ verdict }) => verdict !== 'runs');
  const heads = ran.map((name) => name.replaceAll(' · ', '<br>'));
  const marks = table('journey', journeyNames, heads, (journey, head) => results.mark(`${head.replaceAll('<br>', ' · ')}/${journey}`));
  const others = list(
    ['not run', '', 'why'],
    rest.map(({ name, verdict, because }) => [name, verdict, because ?? '']),
  );
  return publish(`## On ${runtime}`, marks, ...(rest.length > 0 ? [others] : []));
}
