import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { namespaces, networkPolicies, pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { noTracer } from '@oarlock/kernel/tracing';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { NftablesPolicies } from '../src/nftables-policies.ts';

describe('NftablesPolicies', () => {
  let clock: FakeClock;
  let api: ReturnType<typeof memoryApi>;
  let informers: SharedInformerFactory;
  let policies: NftablesPolicies;
  let directory: string;
  let script: string;
  const pod = { namespace: 'a', name: 'p', uid: 'u', labels: {}, ips: ['10.0.0.9'] };
  const podWith = (ip: string): Pod => ({
    metadata: { namespace: 'a', name: 'p', uid: 'u' },
    spec: { nodeName: 'n1', containers: [] },
    status: { phase: 'Running', podIPs: [{ ip }] },
  });
  const commands = () => readFile(join(directory, 'commands'), 'utf8');

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'policies-'));
    // replaces nft: appends the commands to a file, and fails while the file `fails` exists
    script = join(directory, 'nft');
    await writeFile(script, `test ! -e ${directory}/fails || exit 1\ncat >>${directory}/commands\n`);
    clock = new FakeClock();
    api = memoryApi({ clock });
    api.seed(namespaces, { metadata: { name: 'a' } });
    api.seed(networkPolicies, { metadata: { namespace: 'a', name: 'closed' }, spec: { podSelector: {}, policyTypes: ['Ingress'] } });
    informers = new SharedInformerFactory({ client: api.client(), clock });
    const enter = ['sh', script];
    policies = new NftablesPolicies({ informers, client: api.client(), clock, log: silentLogger, tracer: noTracer, enter });
    informers.start();
    policies.startForNode('n1');
    await clock.runUntil(() => policies.checkHealth().healthy, { within: 10_000 });
  });
  afterEach(async () => {
    await policies.stop();
    await informers.stop();
    await rm(directory, { recursive: true });
  });

  it('isolates the reported addresses of a pod, also while its status shows those of an earlier sandbox', async () => {
    await policies.protect(pod);
    api.seed(pods, podWith('10.0.0.8'));
    await clock.runUntil(() => informers.forResource(pods).list().length === 1, { within: 10_000 });
    await policies.protect({ ...pod, uid: 'other', ips: ['10.0.0.7'] }); // writes what is due
    expect(await commands()).toContain('add element inet oarlock-policy ingress-v4 { 10.0.0.7');
    expect(await commands()).toContain('add element inet oarlock-policy ingress-v4 { 10.0.0.9');
    expect(await commands()).not.toMatch(/delete element .*10\.0\.0\.9|10\.0\.0\.8/);
  });

  it('applies the rules again after a failure, also if no pod waits for them', async () => {
    await writeFile(join(directory, 'fails'), '');
    await expect(policies.protect(pod)).rejects.toThrow();
    await clock.advance(0); // the attempt that the change of the pod scheduled
    await rm(join(directory, 'fails'));
    // the clock does not wait for the process of that attempt, which sets the timer of the next one when it ends
    const later = async () => {
      await clock.advance(1_000);
      return commands();
    };
    await expect.poll(later).toContain('10.0.0.9');
  });
});
