/**
 * Compares the processor time of core operations with their stored budgets. The unit is one iteration of a calibration loop, so that the
 * figures depend little on the machine and on its load. Run: npm run bench -- operations, with OARLOCK_ACCEPT=1 to store the figures as budgets.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { accessOperations } from './operations/access-operations.ts';
import { apiOperations } from './operations/api-operations.ts';
import { measureCosts, type Cost } from './operations/cost.ts';
import { partOperations } from './operations/part-operations.ts';
import { schedulingOperation } from './operations/scheduling-operation.ts';

const runs = 21;
const warmUpRuns = 6;
/** An operation fails if its tenth percentile costs more than its budget by this factor: runs on a busy machine differ. */
const tolerance = 1.25;
const budgetFile = join(process.env['OARLOCK_CHECKOUT'] ?? process.cwd(), 'e2e', 'bench', 'operations', 'budget.json');

interface Budget {
  /** The major version of Node.js that the costs were measured with: V8 decides them. */
  readonly node: string;
  readonly costs: Readonly<Record<string, number>>;
}
const nodeVersion = process.versions.node.split('.', 1)[0] ?? '';

async function measure(): Promise<readonly Cost[]> {
  const api = await apiOperations();
  const scheduling = await schedulingOperation();
  const operations = [...api.operations, ...(await partOperations()), ...(await accessOperations()), scheduling.operation];
  const costs = await measureCosts(operations, runs, warmUpRuns);
  scheduling.stop();
  await api.stop();
  return costs;
}

const readBudget = async () => JSON.parse(await readFile(budgetFile, 'utf8')) as Budget;

/** Prints the costs beside their budgets. Returns the number of operations that exceed them. */
function compare(costs: readonly Cost[], budget: Budget): number {
  let exceeded = 0;
  for (const { name, value, middle, high } of costs) {
    const allowed = budget.costs[name];
    const ratio = allowed === undefined ? undefined : value / allowed;
    const isExceeded = ratio !== undefined && ratio > tolerance;
    if (isExceeded) exceeded += 1;
    const others = `[${middle.toFixed(2)}, ${high.toFixed(2)}]`.padEnd(20);
    console.log(
      `${name.padEnd(36)} ${value.toFixed(2).padStart(9)} ${others} ${ratio === undefined ? 'no budget' : `${ratio.toFixed(2)} of the budget`}${isExceeded ? '  EXCEEDED' : ''}`,
    );
  }
  return exceeded;
}

const costs = await measure();
if (process.env['OARLOCK_ACCEPT'] === '1') {
  const budget: Budget = { node: nodeVersion, costs: Object.fromEntries(costs.map(({ name, value }) => [name, Number(value.toFixed(2))])) };
  await writeFile(budgetFile, `${JSON.stringify(budget, undefined, 2)}\n`);
}
const budget = await readBudget();
const exceeded = compare(costs, budget);
if (budget.node !== nodeVersion) console.log(`The budgets are of Node.js ${budget.node}; this is ${nodeVersion}, so none is enforced.`);
process.exit(exceeded > 0 && budget.node === nodeVersion ? 1 : 0);
