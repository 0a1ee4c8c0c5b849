import type { FlowBox, FlowEdge } from './flow.ts';

export interface FlowDrawingProps {
  readonly label: string;
  /** The boxes from left to right. Edges connect boxes of neighboring columns. */
  readonly columns: readonly (readonly FlowBox[])[];
  readonly edges: readonly FlowEdge[];
}

const boxWidth = 250;
const rowHeight = 30;
const boxHeight = 24;
/** The width between two columns; of several columns, less. */
const wideGap = 260;
const narrowGap = 90;
const maxLabel = 34;

/** Boxes in columns, with a line for each flow between them. The facts must be on the page as text, too. */
export function FlowDrawing({ label, columns, edges }: FlowDrawingProps) {
  const gap = columns.length > 2 ? narrowGap : wideGap;
  const width = Math.max(columns.length, 1) * (boxWidth + gap) - gap;
  const height = Math.max(...columns.map((boxes) => boxes.length)) * rowHeight;
  const places = new Map(
    columns.flatMap((boxes, column) =>
      boxes.map((box, row) => [box.id, { box, x: column * (boxWidth + gap), y: ((row + 0.5) * height) / boxes.length }] as const),
    ),
  );
  return (
    <svg class={columns.length > 2 ? 'graph wide' : 'graph'} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      {edges
        .toSorted((a, b) => Number(a.isQuestioned ?? false) - Number(b.isQuestioned ?? false))
        .map(({ from, to, reach, isQuestioned }) => {
          const [left, right] = [places.get(from), places.get(to)];
          if (left === undefined || right === undefined) return null;
          const [x1, x2] = [left.x + boxWidth, right.x];
          const middle = (x1 + x2) / 2;
          return (
            <path
              key={`${from} ${to}`}
              class={`edge edge-${reach}${isQuestioned === true ? ' questioned' : ''}`}
              d={`M${x1} ${left.y} C${middle} ${left.y} ${middle} ${right.y} ${x2} ${right.y}`}
            />
          );
        })}
      {[...places.values()].map(({ box, x, y }) => (
        <g key={box.id} class={`graph-box${box.isQuestioned === true ? ' questioned' : ''}`}>
          <title>{box.label}</title>
          <rect x={x + 1} y={y - boxHeight / 2} width={boxWidth - 2} height={boxHeight} rx={4} />
          <text x={x + 8} y={y + 4}>
            {shorten(box.label)}
          </text>
        </g>
      ))}
    </svg>
  );
}

const shorten = (label: string): string => (label.length <= maxLabel ? label : `${label.slice(0, maxLabel - 1)}…`);
