import { objectLink } from '../../app/links.ts';
import { formatBytes, formatCores } from '../../components/quantity.ts';
import { StatusDot } from '../../components/status-dot.tsx';
import { text } from '../../text/en.ts';
import { podHealth } from '../object/health.ts';
import type { Pod } from '../object/workload-kinds.ts';
import type { NodeUse } from '../overview/node-use.ts';
import { nodeCounts } from '../overview/nodes.ts';
import type { NodePlacement } from './placement.ts';

const nodesResource = { group: '', version: 'v1', resource: 'nodes' };
const podsResource = { group: '', version: 'v1', resource: 'pods' };

/** The type of the data of a dragged node: its name. */
export const draggedNode = 'application/x-oarlock-node';

interface NodeCardProps {
  readonly placement: NodePlacement;
  /** What is shown without pods: that the node has none, or that they are not known. */
  readonly noPods: string;
  /** Absent without metrics of the node. */
  readonly use: NodeUse | undefined;
  /** The namespace whose pods are emphasized; '' for all. */
  readonly namespace: string;
  /** Absent if the server does not explain scheduling. */
  readonly onLose?: (() => void) | undefined;
}

/** A node with its pods, requests, use and capacity. */
export function NodeCard({ placement, noPods, use, namespace, onLose }: NodeCardProps) {
  const { node, pods, requested, allocatable } = placement;
  const { name } = node.metadata;
  const { ready, cordoned } = nodeCounts([node]);
  const health = ready === 0 ? 'error' : cordoned.length > 0 ? 'warning' : 'ok';
  const label = ready === 0 ? text.overview.notReady : cordoned.length > 0 ? text.overview.unschedulable : text.overview.ready;
  return (
    <section
      class="card"
      aria-label={name}
      {...(onLose !== undefined && {
        draggable: true,
        onDragStart: ({ dataTransfer }: DragEvent) => dataTransfer?.setData(draggedNode, name),
      })}
    >
      <h3>
        <a href={objectLink(nodesResource, { name })}>{name}</a> <StatusDot health={health} label={label} />
      </h3>
      <div class="usage">
        <span>{text.overview.cpu}</span>
        <Share name={text.overview.cpu} part={requested.cpu} used={use?.cpu} all={allocatable.cpu} format={formatCores} />
        <span>{text.overview.memory}</span>
        <Share name={text.overview.memory} part={requested.memory} used={use?.memory} all={allocatable.memory} format={formatBytes} />
      </div>
      {pods.length === 0 ? <p class="quiet-text">{noPods}</p> : <PodSigns pods={pods} namespace={namespace} />}
      {onLose !== undefined && (
        <button type="button" onClick={onLose}>
          {text.topology.whatIf}
        </button>
      )}
    </section>
  );
}

interface ShareProps {
  readonly name: string;
  readonly part: number;
  readonly used: number | undefined;
  readonly all: number;
  format(value: number): string;
}

function Share({ name, part, used, all, format }: ShareProps) {
  const parts = [
    { value: part, words: `${format(part)} ${text.overview.requested}` },
    ...(used === undefined ? [] : [{ value: used, words: `${format(used)} ${text.overview.used}` }]),
  ];
  return (
    <div>
      {parts.map(({ value, words }) => (
        <meter key={words} min={0} max={Math.max(all, 1e-9)} value={value} aria-label={`${name}: ${words} / ${format(all)}`} />
      ))}
      <div class="quiet-text">
        {parts.map(({ words }) => words).join(', ')} / {format(all)}
      </div>
    </div>
  );
}

/** The pods of a list that are drawn: thousands may wait for a node. */
const maxSigns = 200;

interface PodSignsProps {
  readonly pods: readonly Pod[];
  readonly namespace: string;
  readonly tab?: string;
}

/** Pods as links with their state. */
export function PodSigns({ pods, namespace, tab }: PodSignsProps) {
  return (
    <ul class="plain pod-signs">
      {pods.slice(0, maxSigns).map((pod) => {
        const { uid, name } = pod.metadata;
        const { health, label } = podHealth(pod);
        const isOther = namespace !== '' && pod.metadata.namespace !== namespace;
        return (
          <li key={uid} class={isOther ? 'other' : undefined}>
            <a href={objectLink(podsResource, { namespace: pod.metadata.namespace, name }, tab)} title={`${pod.metadata.namespace}/${name}: ${label}`}>
              <StatusDot health={health} label={name} />
            </a>
          </li>
        );
      })}
      {pods.length > maxSigns && <li class="quiet-text">{text.object.more(pods.length - maxSigns)}</li>}
    </ul>
  );
}
