import { isApiError, type ApiClient } from '../../api/client.ts';
import { useApp } from '../../app/context.ts';
import { useLoaded, useVisiblePeriods } from '../../app/hooks.ts';
import { formatBytes, formatCores, quantity } from '../../components/quantity.ts';
import { historyOf, type Sample } from '../../components/sample-history.ts';
import { Sparkline } from '../../components/sparkline.tsx';
import { text } from '../../text/en.ts';
import { readPodRequests, sum } from './node-requests.ts';
import { readNodeUse, samplePeriodMs, servesNodeUse } from './node-use.ts';
import type { Node } from './nodes.ts';

interface Use {
  readonly cpu: readonly Sample[];
  readonly memory: readonly Sample[];
}

/** Samples the use of all nodes while the page is visible. Undefined until there is a sample, or if the server has no metrics.k8s.io. */
function useNodeUse(client: ApiClient, isServed: boolean): Use | undefined {
  const history = historyOf(client);
  const period = useVisiblePeriods(samplePeriodMs);
  // a sample that fails is a gap in the plot
  useLoaded(`use ${isServed} ${period}`, async (signal) => {
    if (!isServed) return;
    const nodes = [...(await readNodeUse(client, signal)).values()];
    for (const name of ['cpu', 'memory'] as const) history.add(name, Date.now(), sum(nodes.map((node) => node[name])));
  });
  const use = { cpu: history.of('cpu'), memory: history.of('memory') };
  return use.cpu.length === 0 ? undefined : use;
}

/** What the nodes can run, what pods request, and what they use. `absence` is shown instead if the nodes are not known. */
export function CapacityCard({ nodes, absence }: { readonly nodes: readonly Node[]; readonly absence: string }) {
  const { client, resources } = useApp();
  const isServed = servesNodeUse(resources);
  const use = useNodeUse(client, isServed);
  const { value: requests, error } = useLoaded(`requests ${nodes.length}`, (signal) => readPodRequests(client, signal));
  const capacity = (name: string) => sum(nodes.map(({ status }) => quantity(status?.allocatable?.[name])));
  return (
    <section class="card" aria-labelledby="capacity">
      <h2 id="capacity">{text.overview.capacity}</h2>
      {absence === '' ? (
        <div class="usage">
          <Usage name={text.overview.cpu} total={capacity('cpu')} requested={requests?.cpu} samples={use?.cpu} format={formatCores} />
          <Usage name={text.overview.memory} total={capacity('memory')} requested={requests?.memory} samples={use?.memory} format={formatBytes} />
          <span>{text.overview.pods}</span>
          <span>
            {requests?.count ?? ''} / {capacity('pods')}
          </span>
        </div>
      ) : (
        <p>{absence}</p>
      )}
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
