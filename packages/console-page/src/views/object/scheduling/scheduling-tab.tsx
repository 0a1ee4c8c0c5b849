import { useState } from 'preact/hooks';
import { errorText, isApiError, type KubeObject } from '../../../api/client.ts';
import { pathOf, resourceOfKind } from '../../../api/resources.ts';
import { useApp } from '../../../app/context.ts';
import { useLoaded } from '../../../app/hooks.ts';
import { objectLink } from '../../../app/links.ts';
import { StatusDot } from '../../../components/status-dot.tsx';
import { text } from '../../../text/en.ts';
import type { TabProps } from '../object-page.tsx';
import { changedPod, scoresText, sortedVerdicts, type ExplainResponse, type NodeVerdict, type PodExplanation, type WhatIf } from './explanation.ts';
import { nodeChangesOf } from './node-changes.ts';
import { ReplaceDialog } from './replace-dialog.tsx';
import { changesOnlyPod, isReplaceable } from './replace-pod.ts';
import { topOwner } from './top-owner.ts';
import { WhatIfForm } from './what-if-form.tsx';

const maxShownNodes = 200;

/** Why each node can or cannot run the pod, for the pod as it is or with changes that are only evaluated. */
export function SchedulingTab({ object }: TabProps) {
  const { client } = useApp();
  const [whatIf, setWhatIf] = useState<WhatIf>();
  const [replaces, setReplaces] = useState(false);
  const { namespace, name, resourceVersion } = object.metadata;
  const { value, error, reload } = useLoaded(`${resourceVersion} ${JSON.stringify(whatIf)}`, async (signal) => {
    const question = whatIf === undefined ? { namespace, name } : { pods: [changedPod(object, whatIf)], ...nodeChangesOf(whatIf.nodes) };
    return client.json<ExplainResponse>('/oarlock/v1/scheduling', { method: 'POST', body: JSON.stringify(question), signal });
  });
  const explanation = value?.pods[0];
  return (
    <div class="tab-body">
      {error !== undefined && (
        <p class="error-message" role="alert">
          {isApiError(error, 404) ? text.scheduling.notServed : errorText(error)}{' '}
          <button type="button" onClick={reload}>
            {text.errors.retry}
          </button>
        </p>
      )}
      {explanation !== undefined && <Verdict explanation={explanation} />}
      {isReplaceable(object) && whatIf !== undefined && changesOnlyPod(whatIf) && explanation?.chosen !== undefined && (
        <div class="controls">
          <button type="button" class="primary" onClick={() => setReplaces(true)}>
            {text.scheduling.replace}
          </button>
          {replaces && <ReplaceDialog pod={object} changes={whatIf} onClose={() => setReplaces(false)} onReplaced={() => setReplaces(false)} />}
        </div>
      )}
      <OwnerLink object={object} />
      <WhatIfForm nodes={(explanation?.nodes ?? []).map(({ node }) => node)} isChanged={whatIf !== undefined} onEvaluate={setWhatIf} onReset={() => setWhatIf(undefined)} />
    </div>
  );
}

function Verdict({ explanation: { bound, chosen, message, nodes } }: { readonly explanation: PodExplanation }) {
  const verdicts = sortedVerdicts(nodes);
  const shown = verdicts.slice(0, maxShownNodes);
  const summary =
    bound !== undefined ? text.scheduling.bound(bound) : chosen !== undefined ? text.scheduling.chosen(chosen) : (message ?? text.scheduling.rejected);
  return (
    <>
      <p role="status">
        <StatusDot health={bound === undefined && chosen === undefined ? 'error' : 'ok'} label={summary} />
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label={text.scheduling.nodes}>
        <table class="plain-table">
          <thead>
            <tr>
              <th scope="col">{text.scheduling.node}</th>
              <th scope="col">{text.scheduling.score}</th>
              <th scope="col">{text.scheduling.reason}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((verdict) => (
              <Row key={verdict.node} verdict={verdict} />
            ))}
          </tbody>
        </table>
      </div>
      {shown.length < verdicts.length && <p class="quiet-text">{text.scheduling.shown(shown.length, verdicts.length)}</p>}
    </>
  );
}

const nodesResource = { group: '', version: 'v1', resource: 'nodes' };

function Row({ verdict: { node, rejectedBy, reasons = [], score = 0, scores } }: { readonly verdict: NodeVerdict }) {
  return (
    <tr>
      <th scope="row">
        <a href={objectLink(nodesResource, { name: node })}>{node}</a>
      </th>
      <td>{rejectedBy === undefined ? Math.round(score) : <StatusDot health="error" label={text.scheduling.infeasible} />}</td>
      <td class="message">{rejectedBy === undefined ? scoresText(scores) : `${rejectedBy}: ${reasons.join(', ')}`}</td>
    </tr>
  );
}

/** The pod of a workload is changed in the workload's template, because most fields of a pod cannot change. */
function OwnerLink({ object }: Pick<TabProps, 'object'>) {
  const { client, resources } = useApp();
  const { namespace = '', uid } = object.metadata;
  const { value: owner } = useLoaded(uid, (signal) =>
    topOwner(object, async ({ apiVersion, kind, name }) => {
      const known = resourceOfKind(resources, apiVersion, kind);
      if (known === undefined) return undefined;
      // a user who may not read an owner gets the link to it
      return client.json<KubeObject>(pathOf(known, namespace, name), { signal }).catch((error: unknown) => {
        if (isApiError(error, 403, 404)) return undefined;
        throw error;
      });
    }),
  );
  const known = owner && resourceOfKind(resources, owner.apiVersion, owner.kind);
  if (owner === undefined || known === undefined) return null;
  return (
    <p>
      {text.scheduling.changeOwner} <a href={objectLink(known, { namespace, name: owner.name }, 'yaml')}>{`${owner.kind} ${owner.name}`}</a>
    </p>
  );
}
