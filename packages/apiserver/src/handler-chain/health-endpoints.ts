import type { Clock } from '@oarlock/primitives/clock';
import type { Health } from '@oarlock/spi/role';
import { isTrue, type Query } from '../http/path.ts';

export interface HealthCheck {
  readonly name: string;
  /** Which of the endpoints ask it; /healthz asks those of /livez. */
  readonly live: boolean;
  readonly ready: boolean;
  check(): Health | Promise<Health>;
}

const endpoints = { '/healthz': 'healthz', '/livez': 'livez', '/readyz': 'readyz' } as const;
type Endpoint = (typeof endpoints)[keyof typeof endpoints];
export interface HealthResponse {
  readonly code: 200 | 404 | 500;
  readonly text: string;
}

const unhealthyAfterMs = 5_000;
const healthy: Health = { healthy: true };

/** The health endpoints and what they ask. Reasons are logged and not told: whoever asks need not be known. */
export class HealthEndpoints {
  readonly #checks: () => readonly HealthCheck[];
  readonly #clock: Clock;
  readonly #onFailure: (name: string, because: string) => void;
  readonly #observeCheck: (endpoint: string, name: string, healthy: boolean) => void;

  constructor(
    checks: () => readonly HealthCheck[],
    clock: Clock,
    failed: (name: string, because: string) => void,
    asked: (endpoint: string, name: string, healthy: boolean) => void = () => undefined,
  ) {
    this.#checks = checks;
    this.#clock = clock;
    this.#onFailure = failed;
    this.#observeCheck = asked;
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

  /** @param path one that `has` */
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
    const answers = await Promise.all(
      this.#selectChecks(endpoint).map(async (check) => ({
        name: check.name,
        excluded: excluded.delete(check.name),
        ...(await this.#runCheck(check, endpoint)),
      })),
    );
    for (const answer of answers) {
      if (answer.excluded) lines.push(`[+]${answer.name} excluded: ok\n`);
      else if (answer.healthy) lines.push(`[+]${answer.name} ok\n`);
      else {
        failed = true;
        lines.push(`[-]${answer.name} failed: reason withheld\n`);
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
    return this.#checks().filter(({ live, ready }) => (endpoint === 'readyz' ? ready : live));
  }

  async #runCheck(check: HealthCheck, endpoint: Endpoint): Promise<Health> {
    const answer = await this.#runWithTimeout(check);
    this.#observeCheck(endpoint, check.name, answer.healthy);
    if (!answer.healthy) this.#onFailure(check.name, answer.reason);
    return answer;
  }

  /** A check that does not answer is an answer too. */
  async #runWithTimeout(check: HealthCheck): Promise<Health> {
    try {
      const answer = check.check();
      if (!(answer instanceof Promise)) return answer;
      return await withDeadline(answer, this.#clock, unhealthyAfterMs);
    } catch (error) {
      return { healthy: false, reason: error instanceof Error ? error.message : String(error) };
    }
  }
}

function withDeadline(answer: Promise<Health>, clock: Clock, ms: number): Promise<Health> {
  return new Promise((resolve, reject) => {
    const timer = clock.after(ms, () => {
      resolve({ healthy: false, reason: `no answer within ${ms} ms` });
    });
    answer.then(resolve, reject).finally(() => {
      timer.cancel();
    });
  });
}

/** Always well: that it answers is what is asked. */
export const ping: HealthCheck = { name: 'ping', live: true, ready: true, check: () => healthy };
