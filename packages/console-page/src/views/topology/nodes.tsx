import { useMemo, useState } from 'preact/hooks';
import { useApp } from '../../app/context.ts';
import { useLoaded, useObjects, useVisiblePeriods } from '../../app/hooks.ts';
import { Connection } from '../../components/connection.tsx';
import { absenceText, stateOfAll } from '../../components/store-state.ts';
import { WhenNear } from '../../components/when-near.tsx';
import { text } from '../../text/en.ts';
import type { Pod } from '../object/workload-kinds.ts';
import { readNodeUse, samplePeriodMs, servesNodeUse } from '../overview/node-use.ts';
import type { Node } from '../overview/nodes.ts';
import { draggedNode, NodeCard, PodSigns } from './node-card.tsx';
import { NodeLossDialog } from './node-loss-dialog.tsx';
import { topologyOf, type NodePlacement } from './placement.ts';

/** Bounds of what is followed, so that the view stays fast in large clusters. */
const maxNodes = 500;
const maxPods = 5000;
/** The nodes that are rendered together: full rows of one to four columns. */
const cardsAtOnce = 12;
/** The height in pixels of a card, divided by the usual number of columns. */
const estimatedCardHeight = 80;

/** The pods on each node, by zone, with requests, use and capacity. */
export function Nodes() {
  const { client, namespace, features, resources } = useApp();
  const nodes = useObjects<Node>('/api/v1/nodes', {}, { maxObjects: maxNodes });
  const pods = useObjects<Pod>('/api/v1/pods', {}, { maxObjects: maxPods });
  const isServed = servesNodeUse(resources);
  const period = useVisiblePeriods(samplePeriodMs);
  // without metrics, the requests are shown alone
  const { value: use } = useLoaded(`use ${isServed} ${period}`, async (signal) => (isServed ? readNodeUse(client, signal) : undefined));
  const [lost, setLost] = useState<NodePlacement>();
  const topology = useMemo(() => topologyOf(nodes.items, pods.items), [nodes.items, pods.items]);
  const placements = topology.zones.flatMap(({ nodes: members }) => members);
  // before the pods of a node are known, the answer would be that none needs another node
  const canAsk = features.isOarlock && pods.hasSynced;
  const connection = stateOfAll([nodes, pods]);
  const isCut = nodes.items.length >= maxNodes || pods.items.length >= maxPods;
  return (
    <>
      <p>
        <Connection state={connection.state} reason={connection.reason} />
      </p>
      {canAsk && <DropTarget onDrop={(name) => setLost(placements.find(({ node }) => node.metadata.name === name))} />}
      {isCut && <p class="quiet-text">{text.topology.cut(maxNodes, maxPods)}</p>}
      {topology.pending.length > 0 && (
        <section class="card" aria-labelledby="pending">
          <h2 id="pending">{text.topology.pending(topology.pending.length)}</h2>
          <PodSigns pods={topology.pending} namespace={namespace} {...(features.isOarlock && { tab: 'scheduling' })} />
        </section>
      )}
      {topology.zones.length === 0 && <p class="empty">{absenceText([nodes], text.topology.noNodes)}</p>}
      {topology.zones.map(({ name, nodes: members }) => (
        <section key={name} aria-label={name === '' ? text.topology.noZone : text.topology.zone(name)}>
          {name !== '' && <h2>{text.topology.zone(name)}</h2>}
          {groupsOf(members).map((group) => (
            <WhenNear
              key={group[0]?.node.metadata.uid}
              estimatedHeight={group.length * estimatedCardHeight}
              render={() => (
                <div class={members.length > cardsAtOnce ? 'cards filled' : 'cards'}>
                  {group.map((placement) => (
                    <NodeCard key={placement.node.metadata.uid} placement={placement} noPods={absenceText([pods], text.topology.noPods)} use={use?.get(placement.node.metadata.name)} namespace={namespace} onLose={canAsk ? () => setLost(placement) : undefined} />
                  ))}
                </div>
              )}
            />
          ))}
        </section>
      ))}
      {lost !== undefined && <NodeLossDialog placement={lost} onClose={() => setLost(undefined)} />}
    </>
  );
}

const groupsOf = (members: readonly NodePlacement[]): readonly (readonly NodePlacement[])[] =>
  Array.from({ length: Math.ceil(members.length / cardsAtOnce) }, (_, index) => members.slice(index * cardsAtOnce, (index + 1) * cardsAtOnce));

/** Where a node is dropped for the question what would happen without it. */
function DropTarget({ onDrop }: { readonly onDrop: (node: string) => void }) {
  const [isOver, setIsOver] = useState(false);
  return (
    <p
      class={`drop-target${isOver ? ' over' : ''}`}
      onDragOver={(event) => {
        if (event.dataTransfer?.types.includes(draggedNode) !== true) return;
        event.preventDefault(); // accepts the drop
        setIsOver(true);
      }}
      onDragLeave={() => setIsOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setIsOver(false);
        onDrop(event.dataTransfer?.getData(draggedNode) ?? '');
      }}
    >
      {text.topology.dropHere}
    </p>
  );
}
