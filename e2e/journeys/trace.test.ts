import { beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { hello } from '../harness/hello.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { untilValue } from '../harness/until.ts';

interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId?: string;
  readonly links: readonly { readonly spanId: string }[];
  readonly name: string;
  readonly start: number;
  readonly end: number;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  readonly error?: string;
}

const reason = await componentMissing.containerd();

describe.skipIf(reason !== undefined && !everythingIsNeeded)(
  `the trace from apply to Ready, on containerd${reason === undefined ? '' : ` (${reason})`}`,
  () => {
    const machine = Machine.use();
    let cluster: Cluster;
    let spans: readonly Span[];
    const children = (span: Span) =>
      spans
        .filter(({ parentId, links }) => parentId === span.spanId || links.some(({ spanId }) => spanId === span.spanId))
        .toSorted((a, b) => a.start - b.start);
    const below = (span: Span, seen = new Set<string>()): readonly Span[] =>
      children(span).flatMap((child) => {
        if (seen.has(child.spanId)) return [];
        seen.add(child.spanId);
        return [child, ...below(child, seen)];
      });
    const trace = async (...args: string[]): Promise<readonly Span[]> => {
      const { code, stdout, stderr } = await cluster.oarlock('trace', ...args, '-o', 'json');
      if (code !== 0) throw new Error(stderr);
      return JSON.parse(stdout) as Span[];
    };

    beforeAll(async () => {
      const containerd = await machine.containerd();
      cluster = await machine.cluster({ spec: composition({ storage: 'memory', runtime: 'containerd', network: 'bridge', containerd }) });
      await cluster.kubectl.apply(await hello('containerd'));
      await cluster.kubectl.run(['rollout', 'status', 'deployment/hello', '--timeout=180s']);
      const pods = await cluster.api.untilReady('default', 'hello', 3);
      spans = await untilValue(
        'the last status of each pod, its probes and the rules of the Service are recorded',
        () => trace('deployment/hello'),
        (all) =>
          all.some(({ name }) => name.startsWith('apply services')) &&
          all.filter(({ name }) => name.startsWith('probe')).length >= pods.length &&
          pods.every(({ metadata }) =>
            all.some(
              ({ name, attributes }) => name === 'patch pods/status' && attributes['oarlock.object'] === `pods/default/${metadata.name}`,
            ),
          ),
      );
    });

    const one = (name: RegExp, among: readonly Span[] = spans) => {
      const found = among.find((span) => name.test(span.name));
      if (!found) throw new Error(`no step is called ${name}; steps: ${[...new Set(among.map((span) => span.name))].join(', ')}`);
      return found;
    };

    it('has the request: user, authorization, admission changes and the write', () => {
      const request = one(/^create deployments\.apps$/);
      expect(request.attributes).toMatchObject({
        'oarlock.object': 'deployments.apps/default/hello',
        'oarlock.user': 'kubernetes-admin',
        'http.response.status_code': 201,
      });
      const steps = children(request).map(({ name }) => name);
      for (const step of [
        /^authentication$/,
        /^authorization$/,
        /^admission admission-namespace-lifecycle$/,
        /^validation$/,
        /^storage write$/,
        /^reconcile deployment$/,
      ])
        expect(
          steps.some((name) => step.test(name)),
          `${step} in ${steps.join(', ')}`,
        ).toBe(true);
      expect(one(/^storage write$/, children(request)).attributes['oarlock.revision']).toBe(request.attributes['oarlock.revision']);
    });

    it('has the steps of each of the three pods, in order', async () => {
      const { items } = await cluster.api.get<{ items: { metadata: { name: string } }[] }>(cluster.api.pods('default', 'hello'));
      expect(items).toHaveLength(3);
      const set = one(/^create replicasets\.apps$/, below(one(/^create deployments\.apps$/)));
      for (const {
        metadata: { name },
      } of items) {
        const create = one(
          /^create pods$/,
          below(set).filter(({ attributes }) => attributes['oarlock.object'] === `pods/default/${name}`),
        );
        expect(one(/^admission admission-service-account$/, children(create)).attributes['oarlock.added']).toContain(
          'spec.serviceAccountName',
        );
        const path = below(create);
        const about = path.filter(
          ({ attributes }) => attributes['oarlock.key'] === `default/${name}` || attributes['oarlock.object'] === `pods/default/${name}`,
        );
        const schedule = one(/^schedule$/, about);
        expect(one(/^filter$/, children(schedule)).attributes).toMatchObject({ 'oarlock.nodes': 1, 'oarlock.feasible': 1 });
        const bind = one(/^bind$/, about);
        const sync = one(/^sync pod$/, about);
        expect(sync.attributes['oarlock.node']).toBe('node-a');
        const steps = children(sync);
        const inOrder = [/^mount volumes$/, /^RunPodSandbox$/, /^CreateContainer$/, /^StartContainer$/, /^status update$/].map((step) =>
          one(step, steps),
        );
        for (const [index, step] of inOrder.entries())
          if (index > 0)
            expect(step.start, `${step.name} after ${inOrder[index - 1]?.name}`).toBeGreaterThanOrEqual(inOrder[index - 1]?.end ?? 0);
        expect(one(/^CNI ADD$/, children(one(/^RunPodSandbox$/, steps))).attributes['oarlock.addresses']).toMatch(/^10\.[\d.]+\/\d+$/);
        const all = [create, schedule, bind, sync];
        for (const [index, step] of all.entries()) if (index > 0) expect(step.start).toBeGreaterThanOrEqual(all[index - 1]?.start ?? 0);
        expect(about.some((span) => span.name === 'patch pods/status')).toBe(true);
        expect(path.some(({ name: step }) => step.startsWith('probe'))).toBe(true);
      }
      expect(spans.filter(({ error }) => error !== undefined).map(({ name, error }) => `${name}: ${error}`)).toEqual([]);
    });

    it('is printed with times and the critical path', async () => {
      const { code, stdout } = await cluster.oarlock('trace', 'deployment/hello');
      expect(code).toBe(0);
      expect(stdout).toMatch(/^\s*\+0\.00 ms\s+[\d.]+ ms\s+create deployments\.apps/m);
      expect(stdout).toMatch(/StartContainer container=hello/);
      const [, total = ''] = /The critical path took ([\d.]+) ms/.exec(stdout) ?? [];
      const parts = [...stdout.slice(stdout.indexOf('The critical path')).matchAll(/^\s+([\d.]+) ms\s/gm)].map((match) => Number(match[1]));
      expect(parts.length).toBeGreaterThan(5);
      // every millisecond between the first write and the last effect belongs to a span
      expect(Math.abs(parts.reduce((sum, part) => sum + part, 0) - Number(total))).toBeLessThan(Number(total) * 0.05);
    });

    it('shows where and why a container failed to start', async () => {
      await cluster.kubectl.run(['run', 'bad', '--image=127.0.0.1:1/absent:1']);
      await untilValue(
        'the failure is recorded',
        async () => (await cluster.oarlock('trace', '--failed', 'pod/bad')).stdout,
        (text) => /✔ create pods[^]*✔ schedule[^]*✔ bind[^]*✖ sync pod: [^]*✖ PullImage: .*127\.0\.0\.1:1\/absent:1/.test(text),
      );
      const fine = await cluster.oarlock('trace', '--failed', 'deployment/hello');
      expect(fine).toMatchObject({ code: 0, stdout: 'no failed step of deployments.apps/default/hello is recorded\n' });
      expect(await cluster.oarlock('trace', 'deployment/nobody')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('no trace of'),
      });
    });
  },
);
