import type { Clock } from '@oarlock/primitives/clock';
import { formatTime } from '@oarlock/api/values/time';
import type { FlowCounters, PriorityAndFairness } from './priority-and-fairness.ts';
import type { PriorityLevel, Rejection } from './priority-level.ts';

const prefix = '/debug/api_priority_and_fairness/';
type Row = readonly (string | number | boolean)[];

/** Returns the debug pages of API Priority and Fairness by path, with the same tables as upstream. */
export function flowControlDumps(fairness: PriorityAndFairness, clock: Clock): ReadonlyMap<string, () => string> {
  const levels = () => [...fairness.levels].sort((a, b) => (a.name < b.name ? -1 : 1));
  return new Map([
    [
      `${prefix}dump_priority_levels`,
      () =>
        table(
          levelColumns,
          levels().map((level) => levelRow(level, fairness.counts)),
        ),
    ],
    [`${prefix}dump_queues`, () => table(queueColumns, levels().flatMap(queueRows))],
    [
      `${prefix}dump_requests`,
      () =>
        table(
          requestColumns,
          levels().flatMap((level) => requestRows(level, clock)),
        ),
    ],
  ]); // prettier-ignore
}

const levelColumns = [
  'PriorityLevelName',
  'ActiveQueues',
  'IsIdle',
  'IsQuiescing',
  'WaitingRequests',
  'ExecutingRequests',
  'DispatchedRequests',
  'RejectedRequests',
  'TimedoutRequests',
  'CancelledRequests',
];
function levelRow(level: PriorityLevel, all: Iterable<FlowCounters>): Row {
  const counts = [...all].filter((each) => each.level === level);
  const sum = (of: (each: FlowCounters) => number) => counts.reduce((total, each) => total + of(each), 0);
  const rejected = (...reasons: readonly Rejection[]) =>
    sum((each) => reasons.reduce((total, reason) => total + (each.rejected.get(reason) ?? 0), 0));
  const executing = sum((each) => each.executing);
  return [
    level.name,
    level.queues.filter(({ requests, executing: inQueue }) => requests.length > 0 || inQueue > 0).length,
    executing === 0 && level.queuedRequests === 0,
    false,
    level.queuedRequests,
    executing,
    sum((each) => each.dispatched),
    rejected('queue-full', 'concurrency-limit'),
    rejected('time-out'),
    rejected('cancelled'),
  ];
}

const queueColumns = [
  'PriorityLevelName',
  'Index',
  'PendingRequests',
  'ExecutingRequests',
  'SeatsInUse',
  'NextDispatchR',
  'InitialSeatsSum',
  'MaxSeatsSum',
  'TotalWorkSum',
];
const seatSeconds = (value: number) => `${value.toFixed(8)}ss`;
function queueRows({ name, queues }: PriorityLevel): readonly Row[] {
  return queues.map(({ requests: waiting, executing, virtualStart: start }, index) => {
    const seats = waiting.reduce((total, each) => total + each.seats, 0);
    return [name, index, waiting.length, executing, executing, seatSeconds(start), seats, seats, seatSeconds(seats * 0.003)];
  });
}

const requestColumns = [
  'PriorityLevelName',
  'FlowSchemaName',
  'QueueIndex',
  'RequestIndexInQueue',
  'FlowDistingsher',
  'ArriveTime',
  'InitialSeats',
  'FinalSeats',
  'AdditionalLatency',
];
function requestRows({ name, queues }: PriorityLevel, clock: Clock): readonly Row[] {
  const [now, elapsed] = [clock.now(), clock.monotonic()];
  return queues.flatMap(({ requests: waiting }, queue) =>
    waiting.map(({ schema, flow, since, seats }, i) => [name, schema, queue, i, flow, formatTime(now - (elapsed - since)), seats, 0, '0s']),
  );
}

/** Formats rows as aligned columns, each followed by a comma. */
function table(columns: readonly string[], rows: readonly Row[]): string {
  const texts = [columns, ...rows.map((row) => row.map(String))].map((row) =>
    row.map((cell, i) => (i === columns.length - 1 ? cell : `${cell},`)),
  );
  const widths = columns.map((_, i) => Math.max(...texts.map((row) => row[i]?.length ?? 0)));
  return texts
    .map((row) => `${row.map((cell, i) => (i === columns.length - 1 ? cell : cell.padEnd((widths[i] ?? 0) + 1))).join('')}\n`)
    .join('');
}
