import type { Labels } from '@oarlock/api/selectors/label-selector';
import type { PolicyRules } from '@oarlock/network-policy/policy-rules';
import { trafficGraph, type TrafficEdge, type TrafficGroup } from '@oarlock/network-policy/traffic-graph';
import type { TrafficPort } from '@oarlock/network-policy/traffic-port';
import { useMemo, useState } from 'preact/hooks';
import { FlowDrawing } from '../../../components/flow-drawing.tsx';
import { text } from '../../../text/en.ts';
import { groupsOf, type Peer } from './peers.ts';
import type { TrafficQuery } from './traffic-question.tsx';

const { traffic } = text;
const maxGroups = 40;

export interface TrafficGraphViewProps {
  readonly peers: readonly Peer[];
  readonly question: TrafficQuery;
  readonly port: TrafficPort;
  readonly rules: readonly PolicyRules[];
  readonly namespaces: ReadonlyMap<string, Labels>;
}

/** The workloads on both sides, with a line for each connection that the policies allow. The same facts follow as a table. */
export function TrafficGraphView({ peers, question, port, rules, namespaces }: TrafficGraphViewProps) {
  const [focus, setFocus] = useState('');
  const groups = useMemo(() => groupsOf(peers, maxGroups), [peers]);
  const edges = useMemo(() => trafficGraph({ groups, policies: rules, namespaces, port }), [groups, rules, namespaces, port.port, port.protocol]);
  if (groups.length === 0) return <p class="empty">{traffic.noPods}</p>;
  const workloadOf = (name: string) => peers.find((peer) => peer.name === name)?.workload ?? name;
  const questioned = { from: workloadOf(question.from), to: workloadOf(question.to) };
  const shown = edges.filter(({ from, to }) => focus === '' || from === focus || to === focus);
  return (
    <section aria-labelledby="traffic-graph">
      <h2 id="traffic-graph">{traffic.graph}</h2>
      <p class="quiet-text">{traffic.graphHelp(`${port.port}/${port.protocol.toLowerCase()}`)}</p>
      <div class="controls">
        <label>
          <span>{traffic.focus}</span>
          <select value={focus} onChange={({ currentTarget }) => setFocus(currentTarget.value)}>
            <option value="">{traffic.everything}</option>
            {groups.map(({ id }) => (
              <option key={id} value={id}>
                {id}
              </option>
            ))}
          </select>
        </label>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label={traffic.graph}>
        <Drawing groups={groups} edges={shown} questioned={questioned} />
      </div>
      {groups.length === maxGroups && <p class="quiet-text">{traffic.cut(maxGroups)}</p>}
      <details>
        <summary>{traffic.table}</summary>
        <Matrix groups={groups} edges={edges} />
      </details>
    </section>
  );
}

interface DrawingProps {
  readonly groups: readonly TrafficGroup[];
  readonly edges: readonly TrafficEdge[];
  readonly questioned: { readonly from: string; readonly to: string };
}

/** A workload is a sender in the left column and a receiver in the right one. */
const sender = (id: string): string => `from ${id}`;
const receiver = (id: string): string => `to ${id}`;

function Drawing({ groups, edges, questioned }: DrawingProps) {
  const isQuestioned = ({ from, to }: TrafficEdge) => from === questioned.from && to === questioned.to;
  return (
    <FlowDrawing
      label={traffic.graph}
      columns={[
        groups.map(({ id }) => ({ id: sender(id), label: id, isQuestioned: id === questioned.from })),
        groups.map(({ id }) => ({ id: receiver(id), label: id, isQuestioned: id === questioned.to })),
      ]}
      // a denied connection is drawn only if it is the one in question
      edges={edges
        .filter((edge) => edge.reach !== 'none' || isQuestioned(edge))
        .map((edge) => ({ from: sender(edge.from), to: receiver(edge.to), reach: edge.reach, isQuestioned: isQuestioned(edge) }))}
    />
  );
}

function Matrix({ groups, edges }: Pick<DrawingProps, 'groups' | 'edges'>) {
  const reach = new Map(edges.map((edge) => [`${edge.from} ${edge.to}`, edge.reach]));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={traffic.table}>
      <table class="plain-table">
        <thead>
          <tr>
            <td />
            {groups.map(({ id }) => (
              <th key={id} scope="col">
                {id}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {groups.map(({ id: from }) => (
            <tr key={from}>
              <th scope="row">{from}</th>
              {groups.map(({ id: to }) => {
                const value = reach.get(`${from} ${to}`);
                return <td key={to}>{value === undefined ? '' : traffic.reach[value]}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
