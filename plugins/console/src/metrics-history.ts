import { controlPlaneFigures, controlPlaneMetrics, controlPlaneMetricsPath } from '@oarlock/api/component-helpers/control-plane-figures';
import { milliValue, quantityValue } from '@oarlock/api/values/quantity';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { samplesOf } from '@oarlock/primitives/prometheus-text';
import type { Identity } from '@oarlock/spi/authn';
import { authorizeChain, type Attributes, type Authorizer } from '@oarlock/spi/authz';
import type { Client } from '@oarlock/spi/client';

/** A value at a time in milliseconds since the epoch. */
export interface Sample {
  readonly at: number;
  readonly value: number;
}
export interface History {
  /** The time of this server, because that of a browser may differ. */
  readonly now: number;
  /** The samples by what was measured. */
  readonly samples: Readonly<Record<string, readonly Sample[]>>;
}

interface NodeMetricsList {
  readonly items: readonly { readonly usage?: { readonly cpu?: string; readonly memory?: string } }[];
}

const samplePeriodMs = 60_000;
const keptMs = 60 * 60_000;
const figureNames = ['watches', 'requestsInFlight', 'storedObjects', 'storageBytes'] as const;
const nodeMetricsPath = '/apis/metrics.k8s.io/v1beta1/nodes';

/** The reads that a user needs permission for to see the samples that they result in. */
const readFigures = (identity: Identity): Attributes => ({ kind: 'path', identity, verb: 'get', path: '/metrics' });
const nodeMetrics = { group: 'metrics.k8s.io', version: 'v1beta1', resource: 'nodes', subresource: '', namespace: '', name: '' } as const;
const readNodeUse = (identity: Identity): Attributes => ({ kind: 'resource', identity, verb: 'list', ...nodeMetrics });

export interface MetricsHistoryOptions {
  readonly client: Pick<Client, 'raw'>;
  readonly authz: readonly Authorizer[];
  readonly clock: Pick<Clock, 'now' | 'after'>;
  readonly log: Pick<Logger, 'debug'>;
}

/**
 * The last hour of what the overview plots, which is the same for every page and user. Samples from the first request on, because an API server whose console
 * is not opened must not pay for it; then once a minute, because metrics have no watch. Holds at most 61 samples of each of six values.
 */
export class MetricsHistory {
  readonly #options: MetricsHistoryOptions;
  readonly #figures = new Map<string, readonly Sample[]>();
  readonly #nodeUse = new Map<string, readonly Sample[]>();
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(options: MetricsHistoryOptions) {
    this.#options = options;
  }

  /** Returns the samples of the last hour that the user could have read. Samples from then on if the user may read any. */
  async for(identity: Identity): Promise<History> {
    const [figures, nodeUse] = await Promise.all([this.#isAllowed(readFigures(identity)), this.#isAllowed(readNodeUse(identity))]);
    if (figures || nodeUse) this.#start();
    const samples = Object.fromEntries([...(figures ? this.#figures : []), ...(nodeUse ? this.#nodeUse : [])]);
    return { now: this.#options.clock.now(), samples };
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  #start(): void {
    if (this.#timer !== undefined || this.#isStopped) return;
    this.#timer = this.#options.clock.after(samplePeriodMs, () => void this.#sampleAndRepeat());
  }

  async #sampleAndRepeat(): Promise<void> {
    await Promise.all([this.#sample('control plane', () => this.#sampleFigures()), this.#sample('nodes', () => this.#sampleNodeUse())]);
    this.#timer = undefined;
    this.#start();
  }

  /** A sample that fails is a gap in the plot, also where the server has no metrics of nodes. */
  async #sample(of: string, read: () => Promise<void>): Promise<void> {
    try {
      await read();
    } catch (error) {
      this.#options.log.debug({ err: error, of }, 'the console could not sample metrics');
    }
  }

  async #sampleFigures(): Promise<void> {
    const text = (await this.#options.client.raw('GET', controlPlaneMetricsPath)) as string;
    const figures = controlPlaneFigures(samplesOf(text, (name) => controlPlaneMetrics.has(name)));
    for (const name of figureNames) this.#add(this.#figures, name, figures[name]);
  }

  async #sampleNodeUse(): Promise<void> {
    const { items } = (await this.#options.client.raw('GET', nodeMetricsPath)) as NodeMetricsList;
    if (items.length === 0) return;
    const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
    this.#add(this.#nodeUse, 'cpu', sum(items.map(({ usage }) => milliValue(usage?.cpu ?? '0'))) / 1000);
    this.#add(this.#nodeUse, 'memory', sum(items.map(({ usage }) => quantityValue(usage?.memory ?? '0'))));
  }

  #add(series: Map<string, readonly Sample[]>, name: string, value: number | undefined): void {
    if (value === undefined) return;
    const at = this.#options.clock.now();
    // the time of a machine may be set back
    const kept = (series.get(name) ?? []).filter((sample) => Math.abs(at - sample.at) <= keptMs);
    series.set(name, [...kept.slice(-keptMs / samplePeriodMs), { at, value }]);
  }

  async #isAllowed(attributes: Attributes): Promise<boolean> {
    return (await authorizeChain(this.#options.authz, attributes)).decision === 'allow';
  }
}
