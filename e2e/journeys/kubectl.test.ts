import { chmod, writeFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { kubectlBinaries, newestKubectl, type Kubectl } from '../harness/kubectl.ts';
import { Machine } from '../harness/machine.ts';
import { isReady, type Item, type PodItem } from '../harness/api.ts';
import { untilValue } from '../harness/until.ts';

const newest = newestKubectl();
const binaries = kubectlBinaries().length > 0 ? kubectlBinaries() : newest ? [newest] : [];

const deployment = (replicas: number, message = 'one') => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'web', labels: { app: 'web' } },
  spec: {
    replicas,
    selector: { matchLabels: { app: 'web' } },
    template: {
      metadata: { labels: { app: 'web' } },
      spec: {
        terminationGracePeriodSeconds: 1,
        containers: [
          {
            name: 'main',
            image: 'host',
            command: ['sh', '-c', 'echo "$MESSAGE"; exec sleep 3600'],
            env: [{ name: 'MESSAGE', value: message }],
          },
        ],
      },
    },
  },
});

describe('kubectl', () => {
  const machine = Machine.use();
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await machine.cluster({ spec: composition({ storage: 'memory', runtime: 'process', network: 'host' }) });
  });

  it('is installed in at least one version', () => {
    expect(binaries.length).toBeGreaterThan(0);
  });

  describe.each(binaries)('$version', (binary) => {
    const namespace = `kubectl-${binary.version.replace('.', '-')}`;
    let kubectl: Kubectl;
    const k = (...args: string[]) => kubectl.run(['-n', namespace, ...args]);
    /** Output that appears with a delay: events and logs. */
    const untilOutputMatches = (wanted: RegExp, ...args: string[]) =>
      untilValue(
        `kubectl ${args.join(' ')} says ${wanted}`,
        () => k(...args),
        (output) => wanted.test(output),
      );
    beforeAll(() => {
      kubectl = cluster.kubectl.with(binary);
    });

    it('discovers versions, kinds and nodes', async () => {
      await kubectl.run(['create', 'namespace', namespace]);
      expect(await kubectl.run(['cluster-info'])).toContain(`https://127.0.0.1:${cluster.port}`);
      expect(await kubectl.run(['api-resources'])).toMatch(/deployments\s+deploy\s+apps\/v1\s+true\s+Deployment/);
      expect(await kubectl.run(['api-versions'])).toMatch(/^apps\/v1$/m);
      expect(await kubectl.run(['explain', 'deployment.spec.replicas'])).toMatch(/FIELD:\s+replicas/);
      expect(await kubectl.run(['explain', 'pods'])).toMatch(/KIND:\s+Pod/);
      expect(await kubectl.run(['get', 'nodes'])).toMatch(/^node-a\s+Ready\s/m);
      expect(await kubectl.run(['get', 'nodes', '-o', 'wide'])).toMatch(/INTERNAL-IP/);
      expect(await kubectl.run(['describe', 'node', 'node-a'])).toMatch(/KubeletReady|Allocatable:/);
      // kubectl warns by itself of servers that are newer than it
      expect((await kubectl.try(['version', '-o', 'json'])).stdout).toContain('"minor": "36"');
    });

    it('applies, and applies again without a change', async () => {
      const apply = (object: object) => kubectl.apply(object, { namespace });
      expect(await apply(deployment(2))).toBe('deployment.apps/web created\n');
      expect(await apply(deployment(2))).toBe('deployment.apps/web unchanged\n');
      expect(await k('rollout', 'status', 'deployment/web', '--timeout=180s')).toContain('successfully rolled out');
      expect(await apply(deployment(3))).toBe('deployment.apps/web configured\n');
      expect(await k('wait', '--for=jsonpath={.status.readyReplicas}=3', 'deployment/web', '--timeout=180s')).toContain('condition met');
      expect(await k('wait', '--for=condition=Available', 'deployment/web', '--timeout=180s')).toContain('condition met');
      const diff = await kubectl.try(['-n', namespace, 'diff', '-f', '-'], { input: JSON.stringify(deployment(4)) });
      expect(diff).toMatchObject({ code: 1, stdout: expect.stringMatching(/^\+\s+replicas: 4$/m) });
      expect(
        (await kubectl.try(['-n', namespace, 'apply', '--dry-run=server', '-f', '-'], { input: JSON.stringify(deployment(4)) })).stdout,
      ).toBe('deployment.apps/web configured (server dry run)\n');
      expect(await k('get', 'deployment', 'web', '-o', 'jsonpath={.spec.replicas}')).toBe('3');
    });

    it('prints objects in every output format', async () => {
      expect(await k('get', 'deployments')).toMatch(/^NAME\s+READY\s+UP-TO-DATE\s+AVAILABLE\s+AGE\s*\nweb\s+3\/3\s+3\s+3\s/);
      expect(await k('get', 'pods', '-l', 'app=web')).toMatch(/^web-\S+\s+1\/1\s+Running\s+0\s/m);
      expect(await k('get', 'pods', '-o', 'wide', '--show-labels', '--sort-by=.metadata.name')).toMatch(/node-a/);
      expect((await k('get', 'pods', '-o', 'name')).trim().split('\n')).toHaveLength(3);
      expect(await k('get', 'deploy/web', '-o', 'yaml')).toMatch(/^kind: Deployment$/m);
      expect(await k('get', 'all')).toMatch(/replicaset\.apps\/web-/);
      expect(await k('get', 'pods', '-o', 'custom-columns=NAME:.metadata.name,NODE:.spec.nodeName')).toMatch(/node-a/);
      expect(await k('get', 'pods', '--field-selector', 'status.phase=Running,spec.nodeName=node-a', '-o', 'name')).toContain('pod/web-');
      await untilOutputMatches(/Scheduled|Started/, 'get', 'events');
      const missing = await kubectl.try(['-n', namespace, 'get', 'pod', 'nobody']);
      expect(missing).toMatchObject({ code: 1, stderr: 'Error from server (NotFound): pods "nobody" not found\n' });
    });

    it('describes a pod', async () => {
      await untilOutputMatches(/ScalingReplicaSet/, 'describe', 'deployment', 'web');
      // the newest kubectl prints no events if it describes several objects
      const [first = ''] = (await k('get', 'pods', '-l', 'app=web', '-o', 'name')).split('\n');
      await untilOutputMatches(
        /Started\s+\S+\s+kubelet\s+(spec\.containers\{main\}: )?(Container started|Started container main)/,
        'describe',
        first,
      );
      expect(await k('describe', 'replicasets')).toMatch(/Controlled By:\s+Deployment\/web/);
      expect(await kubectl.run(['describe', 'namespace', namespace])).toMatch(/Status:\s+Active/);
    });

    it('edits an object', async () => {
      const editor = machine.path('editor');
      await writeFile(editor, '#!/bin/sh\nsed -i "s/^  replicas: 3$/  replicas: 2/" "$1"\n');
      await chmod(editor, 0o755);
      const { code, stdout, stderr } = await kubectl.try(['-n', namespace, 'edit', 'deployment', 'web'], { env: { KUBE_EDITOR: editor } });
      expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: 'deployment.apps/web edited\n', stderr: '' });
      expect(await k('get', 'deployment', 'web', '-o', 'jsonpath={.spec.replicas}')).toBe('2');
    });

    it('labels, annotates, patches and replaces', async () => {
      expect(await k('label', 'deployment', 'web', 'tier=front')).toBe('deployment.apps/web labeled\n');
      expect((await kubectl.try(['-n', namespace, 'label', 'deployment', 'web', 'tier=back'])).code).toBe(1);
      expect(await k('label', 'deployment', 'web', 'tier-')).toBe('deployment.apps/web unlabeled\n');
      expect(await k('annotate', 'deployment', 'web', 'note=a b')).toMatch(/^deployment.apps\/web annotated?\n$/);
      expect(
        await k(
          'patch',
          'deployment',
          'web',
          '-p',
          '{"spec":{"template":{"spec":{"containers":[{"name":"main","imagePullPolicy":"IfNotPresent"}]}}}}',
        ),
      ).toMatch(/patched/);
      expect(await k('patch', 'deployment', 'web', '--type=merge', '-p', '{"metadata":{"annotations":{"note":null}}}')).toBe(
        'deployment.apps/web patched\n',
      );
      expect(
        await k('patch', 'deployment', 'web', '--type=json', '-p', '[{"op":"add","path":"/metadata/labels/more","value":"yes"}]'),
      ).toBe('deployment.apps/web patched\n');
      const object = await kubectl.json<Item & { metadata: { labels: Record<string, string> } }>([
        '-n',
        namespace,
        'get',
        'deployment',
        'web',
      ]);
      expect(object.metadata).toMatchObject({ labels: { app: 'web', more: 'yes' } });
      expect(object.metadata.annotations).not.toHaveProperty('note');
      delete object.metadata.labels['more'];
      delete (object.metadata as { resourceVersion?: string }).resourceVersion;
      // kubectl reads the current resource version and sends it, so a status update between the two requests is a conflict
      const replaced = await untilValue(
        'kubectl replace without a conflict',
        () => kubectl.try(['-n', namespace, 'replace', '-f', '-'], { input: JSON.stringify(object) }),
        ({ stderr }) => !stderr.includes('(Conflict)'),
      );
      expect(replaced).toMatchObject({ code: 0, stdout: 'deployment.apps/web replaced\n' });
      const rejection = await kubectl.try(['-n', namespace, 'apply', '-f', '-'], {
        input: JSON.stringify({ ...deployment(1), spec: { ...deployment(1).spec, replicas: -1 } }),
      });
      expect(rejection).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('spec.replicas: Invalid value: -1: must be greater than or equal to 0'),
      });
    });

    it('creates, exposes and scales', async () => {
      expect(await k('create', 'configmap', 'settings', '--from-literal=a=b')).toBe('configmap/settings created\n');
      expect(await k('get', 'configmap', 'settings', '-o', 'jsonpath={.data.a}')).toBe('b');
      expect(await k('create', 'secret', 'generic', 'password', '--from-literal=p=q')).toBe('secret/password created\n');
      expect(await k('describe', 'secret', 'password')).toMatch(/p:\s+1 bytes/);
      expect(await k('create', 'serviceaccount', 'robot')).toBe('serviceaccount/robot created\n');
      expect(await k('create', 'token', 'robot')).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n?$/);
      expect(await k('expose', 'deployment', 'web', '--port=80', '--target-port=8080')).toBe('service/web exposed\n');
      expect(await k('get', 'service', 'web')).toMatch(/^web\s+ClusterIP\s+127\.\S+\s+<none>\s+80\/TCP/m);
      // before 1.31 it reads Endpoints, for which the server sends a warning
      expect(await kubectl.try(['-n', namespace, 'describe', 'service', 'web'])).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/TargetPort:\s+8080\/TCP/),
      });
      expect(await k('scale', 'deployment/web', '--replicas=1')).toBe('deployment.apps/web scaled\n');
      expect(await k('wait', '--for=jsonpath={.status.replicas}=1', 'deployment/web', '--timeout=180s')).toContain('condition met');
      expect(await k('create', 'deployment', 'other', '--image=host', '--', 'sleep', '3600')).toBe('deployment.apps/other created\n');
      expect(await k('delete', 'deployment', 'other')).toBe(
        'deployment.apps "other" deleted\n'.replace(
          'deleted',
          binary.version >= '1.34' ? `deleted from ${namespace} namespace` : 'deleted',
        ),
      );
    });

    it('rolls out and back', async () => {
      await kubectl.apply(deployment(2, 'two'), { namespace });
      await k('rollout', 'status', 'deployment/web', '--timeout=180s');
      expect(await k('set', 'env', 'deployment/web', 'MESSAGE=three')).toContain('env updated');
      await k('rollout', 'status', 'deployment/web', '--timeout=180s');
      expect(await k('rollout', 'history', 'deployment/web')).toMatch(/REVISION\s+CHANGE-CAUSE[\s\S]*\d+\s+<none>/);
      // since 1.36 it warns of objects that were applied before
      expect(await kubectl.try(['-n', namespace, 'rollout', 'undo', 'deployment/web'])).toMatchObject({
        code: 0,
        stdout: 'deployment.apps/web rolled back\n',
      });
      await k('rollout', 'status', 'deployment/web', '--timeout=180s');
      expect(await k('get', 'deployment', 'web', '-o', 'jsonpath={.spec.template.spec.containers[0].env[0].value}')).toBe('two');
      expect(await k('rollout', 'restart', 'deployment/web')).toBe('deployment.apps/web restarted\n');
      await k('rollout', 'status', 'deployment/web', '--timeout=180s');
      expect(await k('rollout', 'pause', 'deployment/web')).toBe('deployment.apps/web paused\n');
      expect(await k('rollout', 'resume', 'deployment/web')).toBe('deployment.apps/web resumed\n');
    });

    it('reads logs', async () => {
      const { items } = await kubectl.json<{ items: PodItem[] }>(['-n', namespace, 'get', 'pods', '-l', 'app=web']);
      const pod = items.find(isReady)?.metadata.name ?? '';
      await untilOutputMatches(/^two\n$/, 'logs', pod);
      expect(await k('logs', pod, '--timestamps', '--tail=1')).toMatch(/^\d{4}-\d\d-\d\dT\S+ two\n$/);
      // pods of the former revision may be deleted meanwhile
      await untilOutputMatches(/^\[pod\/web-\S+\/main\] two$/m, 'logs', '-l', 'app=web', '--prefix');
    });

    it('deletes objects, and a namespace with its contents', async () => {
      expect(await k('delete', 'service,configmap', '--all')).toMatch(/service "web" deleted/);
      expect(await k('delete', 'deployment', 'web', '--wait=true', '--timeout=180s')).toMatch(/deployment.apps "web" deleted/);
      expect(await kubectl.run(['delete', 'namespace', namespace, '--timeout=180s'])).toMatch(/namespace "\S+" deleted/);
      expect((await kubectl.try(['get', 'namespace', namespace])).stderr).toContain('(NotFound)');
    });
  });
});
