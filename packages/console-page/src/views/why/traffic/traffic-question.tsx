import { parseTrafficPort, type TrafficPort } from '@oarlock/network-policy/traffic-port';
import { policyRules, type PolicyRules } from '@oarlock/network-policy/policy-rules';
import type { NetworkPolicy } from '@oarlock/api/types/networking-v1';
import { useMemo, useState } from 'preact/hooks';
import { errorText, type KubeObject } from '../../../api/client.ts';
import { useApp } from '../../../app/context.ts';
import { useObjects } from '../../../app/hooks.ts';
import { link } from '../../../app/router.ts';
import { Connection } from '../../../components/connection.tsx';
import { NamespaceSelect } from '../../../components/namespace-select.tsx';
import { absenceText, stateOfAll } from '../../../components/store-state.ts';
import { text } from '../../../text/en.ts';
import { peersOf, type Peer, type PolicyPod } from './peers.ts';
import { TrafficGraphView } from './traffic-graph-view.tsx';
import { TrafficVerdict } from './traffic-verdict.tsx';

/** Bounds of what is followed and drawn, so that the view stays fast in large clusters. */
const maxPods = 5000;
const maxPolicies = 1000;

export interface TrafficQuery {
  readonly from: string;
  readonly to: string;
  readonly port: string;
}

/** Returns the port, or why the text is none. */
function portOf(port: string): { readonly port: TrafficPort } | { readonly fault: string } {
  try {
    return { port: parseTrafficPort(port) };
  } catch (error) {
    return { fault: errorText(error) };
  }
}

/** Which policies and rules allow or deny a connection, and who may connect to whom. Live: a changed policy or pod changes the answer. */
export function TrafficQuestion({ query }: { readonly query: Readonly<Record<string, string>> }) {
  const { namespace } = useApp();
  const shown = query['ns'] ?? namespace;
  const question: TrafficQuery = { from: query['from'] ?? '', to: query['to'] ?? '', port: query['port'] ?? '80' };
  const pods = useObjects<PolicyPod>('/api/v1/pods', {}, { maxObjects: maxPods });
  const policies = useObjects<KubeObject & NetworkPolicy>('/apis/networking.k8s.io/v1/networkpolicies', {}, { maxObjects: maxPolicies });
  const namespaces = useObjects('/api/v1/namespaces', {}, { maxObjects: maxPods });
  const peers = useMemo(() => peersOf(pods.items), [pods.items]);
  const rules = useMemo((): readonly PolicyRules[] => policies.items.map(policyRules), [policies.items]);
  const labels = useMemo(() => new Map(namespaces.items.map(({ metadata }) => [metadata.name, metadata.labels ?? {}])), [namespaces.items]);
  const parsed = portOf(question.port);
  const go = (next: TrafficQuery, ns = shown) => {
    location.hash = link(['why', 'traffic'], { ...next, ns });
  };
  const stores = [pods, policies, namespaces] as const;
  const connection = stateOfAll(stores);
  // without a policy, the answer would be that it allows everything
  const isKnown = stores.every(({ hasSynced }) => hasSynced);
  return (
    <>
      <Connection state={connection.state} reason={connection.reason} />
      <p class="quiet-text">{text.traffic.help}</p>
      <TrafficForm key={JSON.stringify(question)} question={question} peers={peers} onAsk={go} />
      {'fault' in parsed ? (
        <p class="error-message" role="alert">
          {parsed.fault}
        </p>
      ) : (
        <>
          {question.from !== '' && question.to !== '' && isKnown && (
            <TrafficVerdict question={question} port={parsed.port} peers={peers} rules={rules} namespaces={labels} />
          )}
          <div class="controls">
            <NamespaceSelect value={shown} onChange={(ns) => go(question, ns)} />
          </div>
          {isKnown ? (
            <TrafficGraphView
              peers={shown === '' ? peers : peers.filter(({ pod }) => pod.namespace === shown)}
              question={question}
              port={parsed.port}
              rules={rules}
              namespaces={labels}
            />
          ) : (
            <p class="empty">{absenceText(stores, '')}</p>
          )}
        </>
      )}
    </>
  );
}

interface TrafficFormProps {
  readonly question: TrafficQuery;
  readonly peers: readonly Peer[];
  onAsk(question: TrafficQuery): void;
}

function TrafficForm({ question, peers, onAsk }: TrafficFormProps) {
  const [draft, setDraft] = useState(question);
  const submit = (event: Event) => {
    event.preventDefault();
    onAsk(draft);
  };
  const field = (name: keyof TrafficQuery, label: string) => (
    <label>
      <span>{label}</span>
      <input
        type="text"
        required
        spellcheck={false}
        autocomplete="off"
        value={draft[name]}
        {...(name !== 'port' && { list: 'traffic-ends' })}
        onInput={({ currentTarget }) => setDraft({ ...draft, [name]: currentTarget.value.trim() })}
      />
    </label>
  );
  return (
    <form class="controls" onSubmit={submit}>
      {field('from', text.traffic.from)}
      {field('to', text.traffic.to)}
      {field('port', text.traffic.port)}
      <button type="submit" class="primary">
        {text.why.explain}
      </button>
      <datalist id="traffic-ends">
        {peers.slice(0, 500).map(({ name }) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </form>
  );
}
