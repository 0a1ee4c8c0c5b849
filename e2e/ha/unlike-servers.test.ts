import { beforeAll, describe, expect, it } from 'vitest';
import { componentMissing } from '../harness/component-availability.ts';
import { everythingIsNeeded, Machine } from '../harness/machine.ts';
import { netnsMissing } from '../harness/netns.ts';
import { until, untilValue } from '../harness/until.ts';
import { serverMachines, type ServerMachine } from './support/server-machines.ts';

const missing = componentMissing.etcd() ?? (await netnsMissing());
const roles = ['apiserver', 'controllers', 'scheduler'];

/** As during an upgrade: the first server serves a kind that the second one, whose controllers lead, does not. */
describe.skipIf(missing !== undefined && !everythingIsNeeded)(
  `servers that serve different kinds${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  () => {
    const machine = Machine.use();
    let newer: ServerMachine;
    let older: ServerMachine;

    beforeAll(async () => {
      [newer, older] = (await serverMachines(machine, ['newer', 'older'])) as [ServerMachine, ServerMachine];
      const common = {
        networking: { serviceCIDRs: ['127.96.0.0/16'] },
        storage: { use: 'storage-etcd', config: { managed: true } },
        encryption: {},
      };
      await newer.init({ ...common, roles: ['apiserver'], server: { address: newer.address } });
      const settings = { apiserver: { runtimeConfig: { 'batch/v1': false } } };
      await older.join(newer, { ...common, roles, server: { address: older.address }, settings });
    });

    const owned = (name: string, owner: { readonly kind: string; readonly apiVersion: string; readonly uid: string }) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, namespace: 'default', ownerReferences: [{ ...owner, name: 'owner' }] },
    });

    it('answer 404 for a kind that only the other one serves, in discovery and requests', async () => {
      expect(await newer.kubectl.run(['get', '--raw', '/apis/batch/v1'])).toContain('"cronjobs"');
      expect((await older.kubectl.try(['get', '--raw', '/apis/batch/v1'])).stderr).toContain('could not find the requested resource');
      expect((await older.kubectl.try(['get', 'cronjobs'])).stderr).toContain(`doesn't have a resource type "cronjobs"`);
    });

    it('keep the dependents of such an object, and delete those of an object that is gone', async () => {
      await newer.kubectl.run(['create', 'cronjob', 'owner', '--image=host', '--schedule=0 0 1 1 *']);
      const uid = await newer.kubectl.run(['get', 'cronjob', 'owner', '-o', 'jsonpath={.metadata.uid}']);
      await newer.kubectl.apply(owned('kept', { apiVersion: 'batch/v1', kind: 'CronJob', uid }));
      await newer.kubectl.apply(owned('gone', { apiVersion: 'v1', kind: 'ConfigMap', uid: 'no-such-uid' }));
      await until('the collector has run', async () => {
        const left = await newer.kubectl.run(['get', 'configmaps', '-o', 'name']);
        return !left.includes('configmap/gone');
      });
      expect(await newer.kubectl.run(['get', 'configmaps', '-o', 'name'])).toContain('configmap/kept');
    });

    it('keep a namespace with such an object, and report the group', async () => {
      await newer.kubectl.run(['create', 'namespace', 'left']);
      await newer.kubectl.run(['-n', 'left', 'create', 'cronjob', 'left', '--image=host', '--schedule=0 0 1 1 *']);
      await newer.kubectl.run(['delete', 'namespace', 'left', '--wait=false']);
      await untilValue(
        'the condition',
        () => newer.kubectl.run(['get', 'namespace', 'left', '-o', 'jsonpath={.status.conditions}']),
        (conditions) => conditions.includes('"DiscoveryFailed"') && conditions.includes('batch/v1'),
      );
      expect(await newer.kubectl.run(['get', 'cronjobs', '-n', 'left', '-o', 'name'])).toBe('cronjob.batch/left\n');
    });

    it('do not delete and create the APIService of its group in turn', async () => {
      const uid = () => newer.kubectl.run(['get', 'apiservice', 'v1.batch', '-o', 'jsonpath={.metadata.uid}']);
      const before = await uid();
      // both servers compare the APIServices with the groups that they serve when one changes
      await newer.kubectl.run(['annotate', 'apiservice', 'v1.apps', 'changed=true']);
      await older.kubectl.run(['get', 'apiservice', 'v1.apps']);
      expect(await uid()).toBe(before);
    });
  },
);
