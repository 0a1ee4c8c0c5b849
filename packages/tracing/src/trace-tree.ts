import type { RecordedSpan } from '@oarlock/spi/spans';

export interface TreeNode {
  readonly span: RecordedSpan;
  readonly children: readonly TreeNode[];
  /** The time between the end of the parent span and the start of this span in milliseconds, by reason; undefined if the span did not wait. */
  readonly wait: WaitTime | undefined;
}
export interface WaitTime {
  /** Until the event of the write arrived. */
  readonly watchMs: number;
  /** Until the work began, if its cause is not a write: a probe waits for the container that a pass started. */
  readonly idleMs: number;
  readonly queueMs: number;
}

/** Builds a tree for each root span of one or more traces. Children are ordered by start time. */
export function buildTrees(spans: readonly RecordedSpan[]): readonly TreeNode[] {
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  const childrenOf = new Map<string, RecordedSpan[]>();
  const roots: RecordedSpan[] = [];
  for (const span of spans.toSorted((a, b) => a.start - b.start)) {
    const parent = span.parentId === undefined ? undefined : byId.get(span.parentId);
    if (parent === undefined) roots.push(span);
    else childrenOf.set(parent.spanId, [...(childrenOf.get(parent.spanId) ?? []), span]);
  }
  const node = (span: RecordedSpan, parent: RecordedSpan | undefined): TreeNode => ({
    span,
    wait: parent && waitOf(span, parent),
    children: (childrenOf.get(span.spanId) ?? []).map((child) => node(child, span)),
  });
  return roots.map((root) => node(root, undefined));
}

/**
 * Returns the waiting time of a span that starts after its parent ended: first until its cause arrived, by watch if the parent is a write, then in the workqueue.
 * Undefined if there was none.
 */
function waitOf(span: RecordedSpan, parent: RecordedSpan): WaitTime | undefined {
  if (span.start < parent.end) return undefined;
  const enqueued = span.attributes['oarlock.enqueued_at'];
  const deliveredAt = typeof enqueued === 'number' ? Math.min(Math.max(enqueued, parent.end), span.start) : span.start;
  const untilDelivered = deliveredAt - parent.end;
  const isWrite = parent.attributes['oarlock.object'] !== undefined;
  return { watchMs: isWrite ? untilDelivered : 0, idleMs: isWrite ? 0 : untilDelivered, queueMs: span.start - deliveredAt };
}

/** Returns the sum of the waiting times, in milliseconds. */
export const totalWaitMs = ({ watchMs, idleMs, queueMs }: WaitTime): number => watchMs + idleMs + queueMs;

const ms = (value: number) => `${value < 10 ? value.toFixed(2) : value < 1000 ? value.toFixed(1) : value.toFixed(0)} ms`;
const displayedAttributes = [
  'oarlock.object',
  'oarlock.key',
  'oarlock.node',
  'oarlock.plugin',
  'oarlock.decision',
  'oarlock.phase',
  'oarlock.added',
  'oarlock.changed',
  'oarlock.removed',
  'oarlock.user',
  'oarlock.revision',
  'http.response.status_code',
  'oarlock.nodes',
  'oarlock.feasible',
  'oarlock.refused',
  'oarlock.scores',
  'oarlock.image',
  'oarlock.container',
];
const maxShown = 160;

function describe(span: RecordedSpan): string {
  const facts = displayedAttributes.flatMap((key) => {
    const value = span.attributes[key];
    return value === undefined
      ? []
      : [
          key === 'oarlock.object' || key === 'oarlock.key'
            ? String(value)
            : `${key.slice(key.lastIndexOf('.') + 1)}=${String(value).slice(0, maxShown)}`,
        ];
  });
  return facts.length === 0 ? '' : ` ${facts.join(' ')}`;
}

/** Formats the trees as text, with the start, the duration and the waiting time of each span. */
export function renderTrees(trees: readonly TreeNode[]): string {
  const lines: string[] = [];
  for (const tree of trees) {
    const zero = tree.span.start;
    const write = ({ span, wait, children }: TreeNode, indent: string): void => {
      const waited =
        wait !== undefined && totalWaitMs(wait) >= 0.05
          ? `  (after ${wait.idleMs > 0 ? `${ms(wait.idleMs)} idle` : `${ms(wait.watchMs)} on the watch`}, ${ms(wait.queueMs)} in the queue)`
          : '';
      lines.push(
        `${`+${ms(span.start - zero)}`.padStart(12)}  ${ms(span.end - span.start).padStart(10)}  ${indent}${span.error === undefined ? '' : '✖ '}${span.name}${describe(span)}${waited}${span.error === undefined ? '' : `\n${' '.repeat(26)}${indent}  ${span.error}`}`,
      );
      for (const child of children) write(child, `${indent}  `);
    };
    write(tree, '');
    lines.push('', ...summarize(tree));
  }
  return lines.join('\n');
}

/** Returns the chain of spans that ends last, from the root. */
export function criticalSpans(tree: TreeNode): readonly TreeNode[] {
  let path: readonly TreeNode[] = [];
  let latest = 0;
  const visit = (node: TreeNode, above: readonly TreeNode[]): void => {
    const own = [...above, node];
    if (node.span.end > latest) {
      latest = node.span.end;
      path = own;
    }
    for (const child of node.children) visit(child, own);
  };
  visit(tree, []);
  return path;
}

/** Returns the critical path of a tree: the chain of spans that ends last, divided into work and waiting. */
export function criticalPath(tree: TreeNode): readonly { readonly what: string; readonly ms: number }[] {
  const path = criticalSpans(tree);
  const parts: { what: string; ms: number }[] = [];
  for (const [index, node] of path.entries()) {
    const next = path[index + 1];
    const until = next === undefined ? node.span.end : Math.min(next.span.start, node.span.end);
    if (node.wait !== undefined) {
      parts.push(
        node.wait.idleMs > 0
          ? { what: `idle, before ${node.span.name}`, ms: node.wait.idleMs }
          : { what: `watch, before ${node.span.name}`, ms: node.wait.watchMs },
        { what: `queue, before ${node.span.name}`, ms: node.wait.queueMs },
      );
    }
    parts.push({ what: node.span.name, ms: until - node.span.start });
  }
  return parts;
}

function summarize(tree: TreeNode): string[] {
  const parts = criticalPath(tree);
  const total = parts.reduce((sum, part) => sum + part.ms, 0);
  return [
    `The critical path took ${ms(total)}:`,
    ...parts.filter((part) => part.ms >= 0.05).map((part) => `${ms(part.ms).padStart(14)}  ${part.what}`),
    '',
  ];
}

/** Returns the path from the root to each failed span. */
export function failedPaths(trees: readonly TreeNode[]): readonly (readonly RecordedSpan[])[] {
  const found: RecordedSpan[][] = [];
  const visit = ({ span, children }: TreeNode, above: RecordedSpan[]): boolean => {
    const own = [...above, span];
    const below = children.map((child) => visit(child, own)).some(Boolean);
    if (span.error !== undefined && !below) found.push(own);
    return below || span.error !== undefined;
  };
  for (const tree of trees) visit(tree, []);
  return found;
}
