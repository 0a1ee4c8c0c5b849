import { isApiError, type ApiClient, type ObjectList } from '../../api/client.ts';
import { useApp } from '../../app/context.ts';
import { useLoaded, useVisiblePeriods } from '../../app/hooks.ts';
import { formatBytes, formatCores, quantity } from '../../components/quantity.ts';
import { historyOf, type Sample } from '../../components/sample-history.ts';
import { Sparkline } from '../../components/sparkline.tsx';
import { text } from '../../text/en.ts';
import { requestsOnNodes, sum, type PodRequests, type PodWithRequests } from './node-requests.ts';
import type { Node } from './nodes.ts';

interface NodeMetrics {
  readonly metadata: { readonly name: string };
  readonly usage?: { readonly cpu?: string; readonly memory?: string };
}
interface Use {
  readonly cpu: readonly Sample[];
  readonly memory: readonly Sample[];
}
/** metrics.k8s.io offers no watch; the metrics server scrapes nodes every 15 seconds. */
const samplePeriodMs = 15_000;
const maxPods = 2_000;

/** Samples the use of all nodes while the page is visible. Undefined until there is a sample, or if the server has no metrics.k8s.io. */
function useNodeUse(client: ApiClient, isServed: boolean): Use | undefined {
  const history = historyOf(client);
  const period = useVisiblePeriods(samplePeriodMs);
  // a sample that fails is a gap in the plot
  useLoaded(`use ${isServed} ${period}`, async (signal) => {
    if (!isServed) return;
    const { items } = await client.json<ObjectList<NodeMetrics>>('/apis/metrics.k8s.io/v1beta1/nodes', { signal });
    for (const name of ['cpu', 'memory'] as const) history.add(name, Date.now(), sum(items.map(({ usage }) => quantity(usage?.[name]))));
  });
  const use = { cpu: history.of('cpu'), memory: history.of('memory') };
  return use.cpu.length === 0 ? undefined : use;
}

/** Returns the sum of the requests of the pods on nodes, and their number; the requests are absent in a cluster with too many pods to read them all. */
async function requestsOf(client: ApiClient, signal: AbortSignal): Promise<PodRequests> {
  const { items, metadata } = await client.json<ObjectList<PodWithRequests>>('/api/v1/pods', { query: { limit: maxPods }, signal });
  if (metadata.remainingItemCount !== undefined) return { count: items.length + metadata.remainingItemCount };
  return requestsOnNodes(items);
}

/** What the nodes can run, what pods request, and what they use. */
export function CapacityCard({ nodes }: { readonly nodes: readonly Node[] }) {
  const { client, resources } = useApp();
  const isServed = resources.some(({ group, resource }) => group === 'metrics.k8s.io' && resource === 'nodes');
  const use = useNodeUse(client, isServed);
  const { value: requests, error } = useLoaded(`requests ${nodes.length}`, (signal) => requestsOf(client, signal));
  const capacity = (name: string) => sum(nodes.map(({ status }) => quantity(status?.allocatable?.[name])));
  return (
    <section class="card" aria-labelledby="capacity">
      <h2 id="capacity">{text.overview.capacity}</h2>
      <div class="usage">
        <Usage name={text.overview.cpu} total={capacity('cpu')} requested={requests?.cpu} samples={use?.cpu} format={formatCores} />
        <Usage name={text.overview.memory} total={capacity('memory')} requested={requests?.memory} samples={use?.memory} format={formatBytes} />
        <span>{text.overview.pods}</span>
        <span>
          {requests?.count ?? ''} / {capacity('pods')}
        </span>
      </div>
      {!isServed && <p class="quiet-text">{text.overview.noMetrics}</p>}
      {error !== undefined && isApiError(error) && <p class="quiet-text">{error.message}</p>}
    </section>
  );
}

interface UsageProps {
  readonly name: string;
  readonly total: number;
  readonly requested: number | undefined;
  readonly samples: readonly Sample[] | undefined;
  format(value: number): string;
}

function Usage({ name, total, requested, samples, format }: UsageProps) {
  const used = samples?.at(-1)?.value;
  const parts = [
    used === undefined ? '' : `${format(used)} ${text.overview.used}`,
    requested === undefined ? '' : `${format(requested)} ${text.overview.requested}`,
  ].filter((part) => part !== '');
  const words = `${parts.join(', ')} / ${format(total)}`;
  return (
    <>
      <span>{name}</span>
      <div>
        <meter min={0} max={Math.max(total, 1)} value={used ?? requested ?? 0} aria-label={`${name}: ${words}`} />
        <div class="quiet-text">{words}</div>
        {samples !== undefined && samples.length > 2 && <Sparkline samples={samples} max={total} label={`${name}: ${words}`} />}
      </div>
    </>
  );
}
