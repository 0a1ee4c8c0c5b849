import { access, constants, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { oarlock } from '../harness/oarlock.ts';
import { runProgram } from '../harness/programs.ts';

const ordinaryUser = { uid: 65534, gid: 65534 };
const isRoot = process.getuid?.() === 0;

/** Returns why the programs of the checkout cannot run as this user; undefined if they can. */
async function missingCheckout(user: typeof ordinaryUser | undefined): Promise<string | undefined> {
  const path = oarlock.args.at(-1) ?? '';
  const isReadable = user
    ? (await runProgram('test', ['-r', path], user)).code === 0
    : await access(path, constants.R_OK).then(
        () => true,
        () => false,
      );
  return isReadable ? undefined : 'the checkout is not readable for other users';
}

/** Returns why the user cannot make the namespaces; undefined if it can. */
async function missingNamespaces(user: typeof ordinaryUser | undefined): Promise<string | undefined> {
  const flags = user || !isRoot ? ['--user', '--map-root-user'] : [];
  const { code, stderr } = await runProgram('unshare', [...flags, '--mount', '--pid', '--fork', '--mount-proc', '--', 'true'], user);
  return code === 0 ? undefined : stderr;
}

const pod = (name: string, command: readonly string[]) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: {
    containers: [{ name: 'main', image: 'host', command, volumeMounts: [{ name: 'scratch', mountPath: '/tmp/scratch' }] }],
    volumes: [{ name: 'scratch', emptyDir: {} }],
    terminationGracePeriodSeconds: 1,
  },
});

for (const user of isRoot ? [undefined, ordinaryUser] : [undefined]) {
  const missing = (await missingCheckout(user)) ?? (await missingNamespaces(user));
  describe.skipIf(missing !== undefined)(
    `pods of the embedded composition, ${user ? 'started by root as an ordinary user' : `as user ${process.getuid?.()}`}${missing === undefined ? '' : ` (${missing})`}`,
    () => {
      const machine = Machine.use();
      let cluster: Cluster;
      let key = '';
      beforeAll(async () => {
        cluster = await machine.cluster({
          spec: composition({ storage: 'embedded', runtime: 'process', network: 'host' }),
          ...(user && { runAs: user }),
        });
        key = join(cluster.dataDir, 'pki', 'ca.key');
        await cluster.kubectl.apply([
          pod('attacker', ['sh', '-c', 'echo mine > /tmp/scratch/file; sleep 3600']),
          pod('victim', ['sh', '-c', 'echo private > /tmp/scratch/file; sleep 3600']),
        ]);
        await cluster.kubectl.run(['wait', '--for=condition=Ready', 'pod/attacker', 'pod/victim', '--timeout=180s']);
      });
      const attack = async (script: string, ...args: readonly string[]) => {
        const { stdout, stderr } = await cluster.kubectl.try(['exec', 'attacker', '--', 'sh', '-c', script, 'sh', ...args]);
        return `${stdout}${stderr}`;
      };

      it('report that they are isolated', async () => {
        const status = await cluster.kubectl.run([
          'get',
          'nodes',
          '-o',
          'jsonpath={.items[0].status.conditions[?(@.type=="PodIsolation")].status}',
        ]);
        expect(status).toBe('True');
        expect((await cluster.oarlock('status')).stdout).not.toContain('isolation');
      });

      it('cannot read the key of the certificate authority', async () => {
        const secret = await readFile(key, 'utf8');
        const output = await attack(
          'cat "$1"; for root in /proc/[0-9]*/root "/proc/$2/root" /tmp/scratch/../../../..; do cat "$root$1"; done; ln -s "$1" /tmp/scratch/link; cat /tmp/scratch/link',
          key,
          String(cluster.pid),
        );
        expect(output).toContain('No such file or directory');
        for (const line of secret.trim().split('\n').slice(1, -1)) expect(output).not.toContain(line);
      });

      it('cannot read the environment of the cluster or credentials of others', async () => {
        const output = await attack(
          'cat "/proc/$1/environ" && echo leaked; ls "$2" && echo leaked; cat "$2/admin.kubeconfig" && echo leaked',
          String(cluster.pid),
          cluster.dataDir,
        );
        expect(output).not.toContain('leaked');
      });

      it('have their own token at the standard path, and no file of another pod', async () => {
        const output = await attack(
          'wc -c < /var/run/secrets/kubernetes.io/serviceaccount/token; cat /tmp/scratch/file; find / -xdev -name file -path "*scratch*" -exec cat {} + 2>/dev/null; find / -xdev -name token 2>/dev/null | wc -l',
        );
        expect(output).toMatch(/^\s*[1-9]\d{2,}\nmine\n/);
        expect(output).not.toContain('private');
      });

      it('keep their isolation when the cluster is killed and started again', async () => {
        await cluster.kill9();
        await cluster.up();
        await cluster.kubectl.run(['wait', '--for=condition=Ready', 'pod/attacker', '--timeout=180s']);
        expect(await attack('cat /tmp/scratch/file; cat "$1"', key)).toMatch(/^mine\n.*No such file/s);
        const restarts = 'jsonpath={.items[*].status.containerStatuses[0].restartCount}';
        expect(await cluster.kubectl.run(['get', 'pods', '-o', restarts])).toBe('0 0');
      });
    },
  );
}

describe('pods without isolation', () => {
  const machine = Machine.use();
  const reason = 'pods run without isolation: the config of runtime-process has `isolation: none`';

  it('are reported, and rejected in namespaces that enforce the standard restricted', async () => {
    const spec = composition({ storage: 'memory', runtime: 'process', network: 'host' });
    const cluster = await machine.cluster({ spec: { ...spec, runtimes: [{ use: 'runtime-process', config: { isolation: 'none' } }] } });
    await cluster.daemon.line(
      /^Warning: runtime-process: pods run without isolation: the config of runtime-process has `isolation: none`$/,
    );
    expect((await cluster.oarlock('status')).stdout).toMatch(new RegExp(`^node \\S+: ${reason}$`, 'm'));
    await cluster.kubectl.run(['create', 'namespace', 'strict']);
    await cluster.kubectl.run(['label', 'namespace', 'strict', 'pod-security.kubernetes.io/enforce=restricted']);
    const secured = pod('secured', ['sleep', '3600']);
    const [container] = secured.spec.containers;
    const securityContext = {
      runAsNonRoot: true,
      runAsUser: 65534,
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      seccompProfile: { type: 'RuntimeDefault' },
    };
    const manifest = { ...secured, spec: { ...secured.spec, containers: [{ ...container, securityContext }] } };
    await cluster.kubectl.apply(manifest, { namespace: 'strict' });
    const [rejected] = await cluster.api.until<PodItem>('the pod is rejected', cluster.api.pods('strict'), (items) =>
      items.some(({ status }) => status.phase === 'Failed'),
    );
    expect(JSON.stringify(rejected?.status)).toContain('PodIsolationUnavailable');
    await cluster.stop();
  });
});
