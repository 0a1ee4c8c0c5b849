import { formatTable } from '../../common/format-table.ts';
import type { TopFacts } from './top-facts.ts';
import { controlPlaneTable, nodeTable, podTable, sorted, type SortKey } from './top-tables.ts';

export const topViews = ['pods', 'nodes', 'control plane'] as const;
export type TopView = (typeof topViews)[number];

export interface ScreenState {
  readonly view: TopView;
  readonly sort: SortKey;
  /** The first row that is shown. */
  readonly offset: number;
}
export interface ScreenSize {
  readonly columns: number;
  readonly rows: number;
}

const sortKeyOf: Readonly<Record<string, SortKey>> = { n: 'name', c: 'cpu', m: 'memory', r: 'restarts' };
const viewKeyOf: Readonly<Record<string, TopView>> = { p: 'pods', o: 'nodes', s: 'control plane' };
const steps: Readonly<Record<string, (page: number) => number>> = {
  '\u001B[A': () => -1,
  k: () => -1,
  '\u001B[B': () => 1,
  j: () => 1,
  '\u001B[5~': (page) => -page,
  '\u001B[6~': (page) => page,
};
/** Lines that are not rows of the table: the summary, an empty line, the titles, and the keys. */
const fixedLines = 4;

/** Returns the state after a key; undefined if the key ends the program. */
export function pressKey(state: ScreenState, key: string, { rows }: ScreenSize): ScreenState | undefined {
  if (key === 'q' || key === '\u0003') return undefined;
  const view = key === '\t' ? topViews[(topViews.indexOf(state.view) + 1) % topViews.length] : viewKeyOf[key];
  if (view !== undefined) return { ...state, view, offset: 0 };
  const sort = sortKeyOf[key];
  if (sort !== undefined) return { ...state, sort, offset: 0 };
  const step = steps[key]?.(Math.max(1, rows - fixedLines)) ?? 0;
  return { ...state, offset: Math.max(0, state.offset + step) };
}

/** Returns the lines of the screen, at most as many and as long as it has. */
export function screenLines(facts: TopFacts, state: ScreenState, { columns, rows }: ScreenSize): readonly string[] {
  const height = Math.max(1, rows - fixedLines);
  const table = {
    pods: () => podTable(sorted(facts.pods, state.sort)),
    nodes: () => nodeTable(sorted(facts.nodes, state.sort)),
    'control plane': () => controlPlaneTable(facts.controlPlane),
  };
  const [titles = [], ...body] = table[state.view]();
  const offset = Math.min(state.offset, Math.max(0, body.length - height));
  const lines = formatTable([titles, ...body.slice(offset, offset + height)]).split('\n');
  const range = body.length > height ? `  ${offset + 1}-${Math.min(offset + height, body.length)} of ${body.length}` : '';
  return [
    summaryOf(facts),
    '',
    ...lines,
    ...Array.from({ length: Math.max(0, height + 1 - lines.length) }, () => ''),
    `p pods  o nodes  s control plane  sort: n name  c CPU  m memory  r restarts  q quit${range}`,
  ].map((line) => line.slice(0, columns));
}

function summaryOf({ nodes, pods, controlPlane, metricsMissing, nodesMissing }: TopFacts): string {
  const ready = nodes.filter(({ status }) => status.startsWith('Ready')).length;
  const running = pods.filter(({ status }) => status === 'Running').length;
  const server = controlPlane.ready === undefined ? 'API server answers' : controlPlane.ready ? 'API server ready' : 'API server not ready';
  const usage = metricsMissing === undefined ? '' : ', no figures of use';
  const nodeText = nodesMissing === undefined ? `${ready}/${nodes.length} nodes ready` : 'no permission to list nodes';
  return `${nodeText}, ${running}/${pods.length} pods running, ${server}${usage}`;
}
