import type { Identity } from '@oarlock/spi/authn';
import { noOpinion, type Authorizer } from '@oarlock/spi/authz';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { MetricsHistory } from '../src/metrics-history.ts';

const [admin, reader, unprivileged] = ['admin', 'reader', 'unprivileged'].map((name): Identity => ({ name, groups: [] })) as [
  Identity,
  Identity,
  Identity,
];
/** `reader` may read metrics of nodes only. */
const authz: Authorizer = {
  authorize: ({ identity, ...attributes }) => {
    const isMetrics = attributes.kind === 'path' && attributes.verb === 'get' && attributes.path === '/metrics';
    const isNodeUse =
      attributes.kind === 'resource' &&
      attributes.verb === 'list' &&
      attributes.resource === 'nodes' &&
      attributes.group === 'metrics.k8s.io';
    const isAllowed = (identity.name === 'admin' && isMetrics) || (identity.name !== 'unprivileged' && isNodeUse);
    return isAllowed ? { decision: 'allow', reason: '' } : noOpinion;
  },
};
const minute = 60_000;

function start({ withNodes = true } = {}) {
  const clock = new FakeClock();
  const paths: string[] = [];
  const failures: unknown[] = [];
  let watches = 0;
  const raw = async (_: string, path: string) => {
    paths.push(path);
    if (path.startsWith('/metrics?')) {
      watches += 1;
      return `apiserver_longrunning_requests{verb="WATCH"} ${watches}\napiserver_storage_size_bytes 4096\n`;
    }
    if (!withNodes) throw new Error('no metrics of nodes');
    return { items: [{ usage: { cpu: '250m', memory: '1Ki' } }, { usage: { cpu: '1500000000n', memory: '1Mi' } }] };
  };
  const history = new MetricsHistory({
    client: { raw },
    authz: [authz],
    clock,
    log: { debug: (error: unknown) => void failures.push(error) },
  });
  const pass = async (minutes: number) => {
    for (let each = 0; each < minutes; each += 1) await clock.advance(minute);
  };
  return { clock, history, paths, failures, pass };
}

describe('the history of metrics', () => {
  it('begins with the first request of a user who may read metrics, and goes on', async () => {
    const { history, paths, pass } = start();
    await pass(3);
    expect((await history.for(unprivileged)).samples).toEqual({});
    await pass(3);
    expect(paths).toEqual([]);
    expect((await history.for(admin)).samples).toEqual({});
    await pass(2);
    const { now, samples } = await history.for(admin);
    expect(samples['watches']?.map(({ at, value }) => [now - at, value])).toEqual([
      [minute, 1],
      [0, 2],
    ]);
    expect(samples['storageBytes']?.map(({ value }) => value)).toEqual([4096, 4096]);
    expect(samples['cpu']?.map(({ value }) => value)).toEqual([1.75, 1.75]);
    expect(samples['memory']?.map(({ value }) => value)).toEqual([2 ** 20 + 1024, 2 ** 20 + 1024]);
    history.stop();
  });

  it('is shown to each user as far as the user may read it', async () => {
    const { history, pass } = start();
    await history.for(admin);
    await pass(1);
    expect(Object.keys((await history.for(reader)).samples)).toEqual(['cpu', 'memory']);
    expect((await history.for(unprivileged)).samples).toEqual({});
    history.stop();
  });

  it('holds the last hour, and samples once a minute however many users read it', async () => {
    const { history, paths, pass } = start();
    for (let hour = 0; hour < 3; hour += 1) {
      await Promise.all([history.for(admin), history.for(admin), history.for(reader)]);
      await pass(60);
    }
    expect(paths.filter((path) => path.startsWith('/metrics?'))).toHaveLength(180);
    const { now, samples } = await history.for(admin);
    for (const each of Object.values(samples)) {
      expect(each.length).toBeLessThanOrEqual(61);
      expect(now - (each[0]?.at ?? 0)).toBeLessThanOrEqual(60 * minute);
    }
    history.stop();
  });

  it('has a gap for a sample that fails, and none after it was stopped', async () => {
    const { history, failures, pass, paths } = start({ withNodes: false });
    await history.for(admin);
    await pass(2);
    const { samples } = await history.for(admin);
    expect(Object.keys(samples)).toEqual(['watches', 'storageBytes']);
    expect(failures).toHaveLength(2);
    history.stop();
    const count = paths.length;
    await pass(2);
    await history.for(admin);
    await pass(2);
    expect(paths).toHaveLength(count);
  });
});
