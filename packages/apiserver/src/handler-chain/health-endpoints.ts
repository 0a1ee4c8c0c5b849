import { errorText } from '@oarlock/primitives/error-text';
import type { Clock } from '@oarlock/primitives/clock';
import type { Health } from '@oarlock/spi/role';
import { isTrue, type Query } from '../http/path.ts';

export interface HealthCheck {
  readonly name: string;
  /** The endpoints that include the check: `live` for /livez and /healthz, `ready` for /readyz. */
  readonly live: boolean;
  readonly ready: boolean;
  /** True if a failure of the check is listed but does not fail the endpoint. */
  readonly isInformational?: boolean;
  check(): Health | Promise<Health>;
}

const endpoints = { '/healthz': 'healthz', '/livez': 'livez', '/readyz': 'readyz' } as const;
type Endpoint = (typeof endpoints)[keyof typeof endpoints];
export interface HealthResponse {
  readonly code: 200 | 404 | 500;
  readonly text: string;
}
export interface HealthCheckResult {
  readonly endpoint: string;
  readonly name: string;
  readonly healthy: boolean;
}

export interface HealthEndpointsOptions {
  checks(): readonly HealthCheck[];
  readonly clock: Clock;
  onFailure(name: string, reason: string): void;
  /** Called with the result of each check. */
  readonly observe?: (result: HealthCheckResult) => void;
}

/** Less than upstream's 2 s for etcd: without a quorum a load balancer must see the failure within 2 s. */
const checkTimeoutMs = 1_500;
const healthy: Health = { healthy: true };

/** Serves /healthz, /livez and /readyz. The reasons of failures are logged but not sent, because clients need not be authenticated. */
export class HealthEndpoints {
  readonly #options: HealthEndpointsOptions;

  constructor(options: HealthEndpointsOptions) {
    this.#options = options;
  }

  has(path: string): boolean {
    return Object.keys(endpoints).some((endpoint) => path === endpoint || path.startsWith(`${endpoint}/`));
  }

  get paths(): readonly string[] {
    return Object.entries(endpoints).flatMap(([path, endpoint]) => [
      path,
      ...this.#selectChecks(endpoint).map(({ name }) => `${path}/${name}`),
    ]);
  }

  /** Runs the checks of an endpoint and returns the response. @param path a path for which `has` returns true */
  async answer(path: string, query: Query): Promise<HealthResponse> {
    const root = Object.keys(endpoints).find((endpoint) => path === endpoint || path.startsWith(`${endpoint}/`)) as keyof typeof endpoints;
    const endpoint = endpoints[root];
    const name = path.slice(root.length + 1);
    if (name === '') return this.#runAll(endpoint, query);
    const check = this.#selectChecks(endpoint).find((candidate) => candidate.name === name);
    if (check === undefined) return { code: 404, text: '404 page not found\n' };
    return (await this.#runCheck(check, endpoint)).healthy
      ? { code: 200, text: 'ok' }
      : { code: 500, text: 'internal server error: reason withheld\n' };
  }

  async #runAll(endpoint: Endpoint, query: Query): Promise<HealthResponse> {
    const excluded = new Set(query.all('exclude'));
    const lines: string[] = [];
    let failed = false;
    const results = await Promise.all(
      this.#selectChecks(endpoint).map(async (check) => ({
        name: check.name,
        isInformational: check.isInformational === true,
        excluded: excluded.delete(check.name),
        ...(await this.#runCheck(check, endpoint)),
      })),
    );
    for (const result of results) {
      if (result.excluded) lines.push(`[+]${result.name} excluded: ok\n`);
      else if (result.healthy) lines.push(`[+]${result.name} ok\n`);
      else if (result.isInformational) lines.push(`[-]${result.name} unhealthy, not counted: reason withheld\n`);
      else {
        failed = true;
        lines.push(`[-]${result.name} failed: reason withheld\n`);
      }
    }
    if (excluded.size > 0)
      lines.push(
        `warn: some health checks cannot be excluded: no matches for ${[...excluded].map((name) => JSON.stringify(name)).join(', ')}\n`,
      );
    if (failed) return { code: 500, text: `${lines.join('')}${endpoint} check failed\n` };
    return {
      code: 200,
      text: query.first['verbose'] !== undefined && isTrue(query.first['verbose']) ? `${lines.join('')}${endpoint} check passed\n` : 'ok',
    };
  }

  #selectChecks(endpoint: Endpoint): readonly HealthCheck[] {
    return this.#options.checks().filter(({ live, ready }) => (endpoint === 'readyz' ? ready : live));
  }

  async #runCheck(check: HealthCheck, endpoint: Endpoint): Promise<Health> {
    const result = await this.#runWithTimeout(check);
    const { observe, onFailure } = this.#options;
    observe?.({ endpoint, name: check.name, healthy: result.healthy });
    if (!result.healthy) onFailure(check.name, result.reason);
    return result;
  }

  /** Runs a check. A check that throws or exceeds its timeout counts as unhealthy. */
  async #runWithTimeout(check: HealthCheck): Promise<Health> {
    try {
      const result = check.check();
      if (!(result instanceof Promise)) return result;
      return await withTimeout(result, this.#options.clock);
    } catch (error) {
      return { healthy: false, reason: errorText(error) };
    }
  }
}

function withTimeout(result: Promise<Health>, clock: Clock): Promise<Health> {
  return new Promise((resolve, reject) => {
    const timer = clock.after(checkTimeoutMs, () => {
      resolve({ healthy: false, reason: `no answer within ${checkTimeoutMs} ms` });
    });
    result.then(resolve, reject).finally(() => {
      timer.cancel();
    });
  });
}

/** The health check `ping`, which always succeeds: a response shows that the server responds. */
export const ping: HealthCheck = { name: 'ping', live: true, ready: true, check: () => healthy };
