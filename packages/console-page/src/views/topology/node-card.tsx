import { objectLink } from '../../app/links.ts';
import { formatBytes, formatCores } from '../../components/quantity.ts';
import { StatusDot } from '../../components/status-dot.tsx';
import { text } from '../../text/en.ts';
import { podHealth } from '../object/health.ts';
import type { Pod } from '../object/workload-kinds.ts';
import { nodeCounts } from '../overview/nodes.ts';
import type { NodePlacement } from './placement.ts';

const nodesResource = { group: '', version: 'v1', resource: 'nodes' };
const podsResource = { group: '', version: 'v1', resource: 'pods' };

/** The type of the data of a dragged node: its name. */
export const draggedNode = 'application/x-oarlock-node';

interface NodeCardProps {
  readonly placement: NodePlacement;
  /** The namespace whose pods are emphasized; '' for all. */
  readonly namespace: string;
  /** Absent if the server does not explain scheduling. */
  readonly onLose?: (() => void) | undefined;
}

/** A node with its pods, requests and capacity. */
export function NodeCard({ placement, namespace, onLose }: NodeCardProps) {
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
        <Share name={text.overview.cpu} part={requested.cpu} all={allocatable.cpu} format={formatCores} />
        <span>{text.overview.memory}</span>
        <Share name={text.overview.memory} part={requested.memory} all={allocatable.memory} format={formatBytes} />
      </div>
      <PodSigns pods={pods} namespace={namespace} />
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
  readonly all: number;
  format(value: number): string;
}

function Share({ name, part, all, format }: ShareProps) {
  const words = `${format(part)} ${text.overview.requested} / ${format(all)}`;
  return (
    <div>
      <meter min={0} max={Math.max(all, 1e-9)} value={part} aria-label={`${name}: ${words}`} />
      <div class="quiet-text">{words}</div>
    </div>
  );
}

interface PodSignsProps {
  readonly pods: readonly Pod[];
  readonly namespace: string;
  readonly tab?: string;
}

/** Pods as links with their state. */
export function PodSigns({ pods, namespace, tab }: PodSignsProps) {
  if (pods.length === 0) return <p class="quiet-text">{text.topology.noPods}</p>;
  return (
    <ul class="plain pod-signs">
      {pods.map((pod) => {
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
    </ul>
  );
}
