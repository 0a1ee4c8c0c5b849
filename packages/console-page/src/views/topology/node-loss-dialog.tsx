import { errorText } from '../../api/client.ts';
import { useApp } from '../../app/context.ts';
import { useLoaded } from '../../app/hooks.ts';
import { Dialog } from '../../components/dialog.tsx';
import { StatusDot } from '../../components/status-dot.tsx';
import { text } from '../../text/en.ts';
import type { ExplainResponse, PodExplanation } from '../object/scheduling/explanation.ts';
import type { Pod } from '../object/workload-kinds.ts';
import { displacedPods, podWithoutNode } from './node-loss.ts';
import type { NodePlacement } from './placement.ts';

interface NodeLossDialogProps {
  readonly placement: NodePlacement;
  onClose(): void;
}

/** Where the pods of a node would go without the node. The placement is that of the moment when the dialog was opened. */
export function NodeLossDialog({ placement: { node, pods }, onClose }: NodeLossDialogProps) {
  const { client } = useApp();
  const { name } = node.metadata;
  const displaced = displacedPods(pods);
  const { value, error, isLoading } = useLoaded(node.metadata.uid, async (signal): Promise<ExplainResponse> => {
    if (displaced.length === 0) return { pods: [] };
    const body = JSON.stringify({ pods: displaced.map(podWithoutNode), removedNodes: [name] });
    return client.json('/oarlock/v1/scheduling', { method: 'POST', body, signal });
  });
  return (
    <Dialog title={text.topology.lossTitle(name)} onClose={onClose}>
      <p class="quiet-text">{text.topology.lossHelp}</p>
      {isLoading && <p role="status">{text.connection.connecting}</p>}
      {error !== undefined && (
        <p class="error-message" role="alert">
          {errorText(error)}
        </p>
      )}
      {value !== undefined && (value.pods.length === 0 ? <p>{text.topology.nothingMoves}</p> : <Outcomes displaced={displaced} explanations={value.pods} />)}
    </Dialog>
  );
}

interface OutcomesProps {
  readonly displaced: readonly Pod[];
  readonly explanations: readonly PodExplanation[];
}

function Outcomes({ displaced, explanations }: OutcomesProps) {
  return (
    <table class="plain-table">
      <thead>
        <tr>
          <th scope="col">{text.topology.pod}</th>
          <th scope="col">{text.topology.outcome}</th>
        </tr>
      </thead>
      <tbody>
        {displaced.map(({ metadata: { uid, namespace, name } }, index) => {
          const { chosen, message } = explanations[index] ?? {};
          return (
            <tr key={uid}>
              <th scope="row">{`${namespace}/${name}`}</th>
              <td class="message">
                {chosen === undefined ? (
                  <StatusDot health="error" label={`${text.topology.stays}: ${message ?? ''}`} />
                ) : (
                  <StatusDot health="ok" label={text.topology.moves(chosen)} />
                )}
              </td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
