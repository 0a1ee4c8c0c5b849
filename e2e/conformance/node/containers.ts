import { expect, it } from 'vitest';
import { busyboxImage } from '../../fixtures/test-image.ts';
import type { NodeWorkbench, Spec } from '../node-workbench.ts';
import { entrypointImage, userImage } from './images.ts';

/** Commands, users, environment and termination state of containers. */
export function containerBehaviours(bench: NodeWorkbench): void {
  const only = (script: string, more: Spec = {}, pod: Spec = {}): Spec => ({ containers: [bench.container(script, more)], ...pod });
  const env = (variables: Readonly<Record<string, string | Spec>>) =>
    Object.entries(variables).map(([name, value]) => (typeof value === 'string' ? { name, value } : { name, valueFrom: value }));

  for (const [title, more, wanted] of [
    ['use the image defaults if command and args are blank', {}, 'image-entry default arguments'],
    [
      "be able to override the image's default arguments (container cmd)",
      { args: ['override', 'arguments'] },
      'image-entry override arguments',
    ],
    ["be able to override the image's default command (container entrypoint)", { command: ['echo', 'own'] }, 'own'],
    ["be able to override the image's default command and arguments", { command: ['echo', 'own'], args: ['override'] }, 'own override'],
  ] as const)
    it(`Containers should ${title}`, async () => {
      expect(await bench.outputOf({ containers: [{ name: 'main', image: entrypointImage, ...more }] })).toBe(`${wanted}\n`);
    });

  const ending = async (policy: string | undefined, script: string, more: Spec = {}, fails = false) => {
    const { pod } = await bench.run(only(script, { ...(policy !== undefined && { terminationMessagePolicy: policy }), ...more }), {
      fails,
    });
    return pod.status.containerStatuses?.[0]?.state?.terminated;
  };
  it('Container Runtime blackbox test on terminated container should report termination message if TerminationMessagePath is set as non-root user and at a non-default path', async () => {
    const more = { terminationMessagePath: '/dev/termination-custom-log', securityContext: { runAsUser: 1000 } };
    expect((await ending(undefined, 'echo -n DONE > /dev/termination-custom-log', more))?.message).toBe('DONE');
  });
  it('Container Runtime blackbox test on terminated container should report termination message from log output if TerminationMessagePolicy FallbackToLogsOnError is set', async () => {
    expect(await ending('FallbackToLogsOnError', 'echo -n DONE; exit 1', {}, true)).toMatchObject({
      message: 'DONE',
      reason: 'Error',
      exitCode: 1,
    });
  });
  it('Container Runtime blackbox test on terminated container should report termination message as empty when pod succeeds and TerminationMessagePolicy FallbackToLogsOnError is set', async () => {
    expect((await ending('FallbackToLogsOnError', 'echo DONE; exit 0'))?.message ?? '').toBe('');
  });
  it('Container Runtime blackbox test on terminated container should report termination message from file when pod succeeds and TerminationMessagePolicy FallbackToLogsOnError is set', async () => {
    expect(await ending('FallbackToLogsOnError', 'echo -n OK > /dev/termination-log; exit 0')).toMatchObject({
      message: 'OK',
      reason: 'Completed',
    });
  });
  for (const [policy, phase, restarts, ready] of [
    ['Always', 'Running', 2, true],
    ['OnFailure', 'Succeeded', 1, false],
    ['Never', 'Failed', 0, false],
  ] as const)
    it(`Container Runtime blackbox test when starting a container that exits should run with the expected status (${policy})`, async () => {
      // fails first, then succeeds, then keeps running
      const script = `n=$(cat /v/n 2>/dev/null || echo 0); echo $((n + 1)) > /v/n; [ $n = 0 ] && exit 1; [ $n = 1 ] && exit 0; sleep 600`;
      const { metadata } = await bench.pod({
        ...only(script, { volumeMounts: [{ name: 'v', mountPath: '/v' }] }),
        restartPolicy: policy,
        volumes: [{ name: 'v', emptyDir: {} }],
      });
      const { status } = await bench.pods.until(
        metadata.name,
        `be ${phase} after ${restarts} restarts`,
        (pod) =>
          pod.status.phase === phase &&
          pod.status.containerStatuses?.[0]?.restartCount === restarts &&
          pod.status.containerStatuses[0].ready === ready,
        600_000,
      );
      expect(status.conditions?.find(({ type }) => type === 'Ready')?.status).toBe(ready ? 'True' : 'False');
      if (!ready) expect(status.containerStatuses?.[0]?.state?.terminated).toBeDefined();
      bench.forget(metadata.name);
    });

  it("Variable Expansion should allow composing env vars into new env vars, and substituting values in a container's command and args", async () => {
    const more = {
      env: env({ FOO: 'foo-value', BAR: 'bar-value', FOOBAR: '$(FOO);;$(BAR)', ESCAPED: '$$(FOO)', UNKNOWN: '$(NOBODY)' }),
      command: ['sh', '-c', 'echo "$FOOBAR $ESCAPED $UNKNOWN" "$0" "$1"', 'command $(FOO)'],
      args: ['args $(BAR) $$(BAR)'],
    };
    expect(await bench.outputOf(only('', more))).toBe('foo-value;;bar-value $(FOO) $(NOBODY) command foo-value args bar-value $(BAR)\n');
  });

  it('Downward API should provide pod name, namespace and IP address, host IPs and pod UID as env vars', async () => {
    const field = (fieldPath: string) => ({ fieldRef: { fieldPath } });
    const variables = env({
      NAME: field('metadata.name'),
      NAMESPACE: field('metadata.namespace'),
      UID_OF: field('metadata.uid'),
      IP: field('status.podIP'),
      IPS: field('status.podIPs'),
      HOST: field('status.hostIP'),
      HOSTS: field('status.hostIPs'),
      NODE: field('spec.nodeName'),
      ACCOUNT: field('spec.serviceAccountName'),
      LABEL: field("metadata.labels['app']"),
    });
    const { log, pod } = await bench.run(
      only('echo $NAME $NAMESPACE $UID_OF $IP $IPS $HOST $HOSTS $NODE $ACCOUNT $LABEL', { env: variables }),
      { metadata: { labels: { app: 'downward' } } },
    );
    const { status, metadata, spec } = pod;
    const ips = (list: readonly { readonly ip: string }[] = []) => list.map(({ ip }) => ip).join(',');
    expect(log.trim().split(' ')).toEqual([
      metadata.name,
      bench.namespace,
      metadata.uid,
      status.podIP,
      ips(status.podIPs),
      status.hostIP,
      ips(status.hostIPs),
      spec.nodeName,
      'default',
      'downward',
    ]);
  });
  it("Downward API should provide container's limits.cpu/memory and requests.cpu/memory as env vars, and default limits from node allocatable", async () => {
    const of = (resource: string, divisor?: string) => ({ resourceFieldRef: { resource, ...(divisor !== undefined && { divisor }) } });
    const variables = env({ A: of('limits.cpu'), B: of('requests.cpu', '1m'), C: of('limits.memory', '1Mi'), D: of('requests.memory') });
    const resources = { requests: { cpu: '250m', memory: '32Mi' }, limits: { cpu: '1250m', memory: '64Mi' } };
    expect(await bench.outputOf(only('echo $A $B $C $D', { env: variables, resources }))).toBe(`2 250 64 ${32 << 20}\n`);
    const { status } = await bench.api.get<{ readonly status: { readonly allocatable: Readonly<Record<string, string>> } }>(
      '/api/v1/nodes/node-a',
    );
    const defaults = await bench.outputOf(only('echo $A', { env: env({ A: of('limits.cpu') }) }));
    expect(defaults.trim()).toBe(status.allocatable['cpu']);
  });

  for (const [kind, title] of [
    ['configMap', 'ConfigMap'],
    ['secret', 'Secrets'],
  ] as const)
    it(`${title} should be consumable from pods in env vars and via the environment, with various prefixes`, async () => {
      const name = bench.name(kind.toLowerCase());
      const data = { 'data-1': 'value-1', data_2: 'value 2', 'p.3': 'three' };
      await bench.create(bench.at(`${kind.toLowerCase()}s`), {
        metadata: { name },
        ...(kind === 'secret' ? { stringData: data } : { data }),
      });
      const one = { [`${kind}KeyRef`]: { name, key: 'data-1' } };
      const absent = { [`${kind}KeyRef`]: { name: 'nobody', key: 'x', optional: true } };
      const more = {
        env: env({ ONE: one, ABSENT: absent }),
        envFrom: [{ [`${kind}Ref`]: { name } }, { prefix: 'p-', [`${kind}Ref`]: { name } }, { prefix: '#$_', [`${kind}Ref`]: { name } }],
      };
      const output = await bench.outputOf(only('', { ...more, command: ['env'] })); // the shell drops names that are invalid for it
      for (const line of [
        'ONE=value-1',
        'data-1=value-1',
        'data_2=value 2',
        'p.3=three',
        'p-data_2=value 2',
        'p-p.3=three',
        '#$_data_2=value 2',
      ])
        expect(output.split('\n')).toContain(line);
      expect(output).not.toContain('ABSENT');
    });

  const uid = 'id -u; id -g; id -G';
  it('Security Context When creating a container with runAsUser should run the container with uid 65534', async () => {
    expect(await bench.outputOf(only('id -u', { securityContext: { runAsUser: 65_534 } }))).toBe('65534\n');
  });
  it('Security Context should support pod.Spec.SecurityContext.RunAsUser And RunAsGroup, also of the container', async () => {
    const pod = { securityContext: { runAsUser: 1001, runAsGroup: 2002, supplementalGroups: [3003], fsGroup: 4004 } };
    expect(await bench.outputOf(only(uid, {}, pod))).toBe('1001\n2002\n2002 3003 4004\n');
    expect(await bench.outputOf(only('id -u; id -g', { securityContext: { runAsUser: 1005, runAsGroup: 2006 } }, pod))).toBe(
      '1005\n2006\n',
    );
  });
  it('runs as the user of the image, and rejects root with runAsNonRoot', async () => {
    expect(
      await bench.outputOf({
        containers: [{ name: 'main', image: userImage, command: ['id', '-u'], securityContext: { runAsNonRoot: true } }],
      }),
    ).toBe('1000\n');
    const { metadata } = await bench.pod(only('true', { securityContext: { runAsNonRoot: true } }));
    const { status } = await bench.pods.until(
      metadata.name,
      'be refused',
      (pod) => pod.status.containerStatuses?.[0]?.state?.waiting?.reason === 'CreateContainerConfigError',
    );
    expect(status.containerStatuses?.[0]?.state?.waiting?.message).toMatch(/^container has runAsNonRoot and image will run as root/);
    bench.forget(metadata.name);
  });
  it('Security Context When creating a pod with privileged should run the container as unprivileged when false', async () => {
    const script = 'mount -t tmpfs none /home 2>&1 && echo made || echo refused';
    expect(await bench.outputOf(only(script, { securityContext: { privileged: false } }))).toMatch(/refused/);
    expect(await bench.outputOf(only(script, { securityContext: { privileged: true } }))).toMatch(/made/);
  });
  it('Security Context When creating a pod with readOnlyRootFilesystem should run the container with writable rootfs when readOnlyRootFilesystem=false; Kubelet should not write to root filesystem otherwise', async () => {
    const script = 'touch /checkfile && echo written || echo refused';
    expect(await bench.outputOf(only(script, { securityContext: { readOnlyRootFilesystem: false } }))).toMatch(/written/);
    expect(await bench.outputOf(only(script, { securityContext: { readOnlyRootFilesystem: true } }))).toMatch(/refused/);
  });
  it('Security Context when creating containers with AllowPrivilegeEscalation should not allow privilege escalation when false', async () => {
    const output = (allowPrivilegeEscalation: boolean) =>
      bench.outputOf(only('grep NoNewPrivs /proc/self/status', { securityContext: { allowPrivilegeEscalation, runAsUser: 1000 } }));
    expect(await output(false)).toBe('NoNewPrivs:\t1\n');
    expect(await output(true)).toBe('NoNewPrivs:\t0\n');
  });
  it('Sysctls should support sysctls, and reject invalid ones', async () => {
    const sysctls = (list: readonly Spec[]) => ({ securityContext: { sysctls: list } });
    const spec = only('cat /proc/sys/kernel/shm_rmid_forced', {}, sysctls([{ name: 'kernel.shm_rmid_forced', value: '1' }]));
    expect(await bench.outputOf(spec)).toBe('1\n');
    await expect(
      bench.pod(
        only(
          'true',
          {},
          sysctls([
            { name: 'foo-', value: 'bar' },
            { name: 'kernel.shmmax', value: '1' },
            { name: 'safe-and-unsafe', value: '1' },
          ]),
        ),
      ),
    ).rejects.toThrow(/422/);
  });

  it('Kubelet when scheduling a busybox command in a pod should print the output to logs', async () => {
    expect(await bench.outputOf("echo 'Hello World' ; sleep 1")).toBe('Hello World\n');
  });
  it('Kubelet when scheduling a busybox command that always fails in a pod should have a terminated reason, and be possible to delete', async () => {
    const { metadata } = await bench.pod({
      containers: [{ name: 'main', image: busyboxImage, command: ['/bin/false'] }],
      restartPolicy: 'Always',
    });
    const { status } = await bench.pods.until(metadata.name, 'have terminated once', (pod) => {
      const { state, lastState } = pod.status.containerStatuses?.[0] ?? {};
      return (state?.terminated ?? lastState?.terminated) !== undefined;
    });
    const { state, lastState } = status.containerStatuses?.[0] ?? {};
    expect((state?.terminated ?? lastState?.terminated)?.reason).toBe('Error');
    await bench.remove(`${bench.at('pods')}/${metadata.name}`);
    await bench.gone(metadata.name);
  });
  it('Kubelet when scheduling an agnhost Pod with hostAliases should write entries to /etc/hosts', async () => {
    const hostAliases = [{ ip: '123.45.67.89', hostnames: ['foo', 'bar'] }];
    expect(await bench.outputOf(only('cat /etc/hosts', {}, { hostAliases }))).toContain(
      '# Entries added by HostAliases.\n123.45.67.89\tfoo\tbar\n',
    );
  });
  it('KubeletManagedEtcHosts should test kubelet managed /etc/hosts file', async () => {
    const managed = '# Kubernetes-managed hosts file.';
    expect(await bench.outputOf(only('cat /etc/hosts'))).toContain(managed);
    expect(await bench.outputOf(only('cat /etc/hosts', {}, { hostNetwork: true }))).not.toContain(managed);
    const own = { volumeMounts: [{ name: 'own', mountPath: '/etc/hosts' }] };
    expect(
      await bench.outputOf({ ...only('cat /etc/hosts', own), volumes: [{ name: 'own', hostPath: { path: '/etc/hosts', type: 'File' } }] }),
    ).not.toContain(managed);
  });
  it('has its host name: hostname, subdomain, and the FQDN if setHostnameAsFQDN is set', async () => {
    expect(await bench.outputOf(only('hostname; hostname -f', {}, { hostname: 'called', subdomain: 'sub' }))).toBe(
      `called\ncalled.sub.${bench.namespace}.svc.cluster.local\n`,
    );
    expect(await bench.outputOf(only('hostname', {}, { hostname: 'called', subdomain: 'sub', setHostnameAsFQDN: true }))).toBe(
      `called.sub.${bench.namespace}.svc.cluster.local\n`,
    );
  });

  const subPathPod = (expr: string, script: string, more: Spec = {}): Spec => ({
    ...only(script, {
      env: [
        { name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
        { name: 'ANNOTATION', valueFrom: { fieldRef: { fieldPath: "metadata.annotations['mysubpath']" } } },
      ],
      volumeMounts: [
        { name: 'work', mountPath: '/logscontainer', subPathExpr: expr },
        { name: 'work', mountPath: '/testcontainer' },
      ],
    }),
    volumes: [{ name: 'work', emptyDir: {} }],
    ...more,
  });
  const expectFailure = async (expr: string, metadata: Spec, message: RegExp) => {
    const created = await bench.pod(subPathPod(expr, 'sleep 600'), metadata);
    const { status } = await bench.pods.until(
      created.metadata.name,
      'be refused',
      (pod) => pod.status.containerStatuses?.[0]?.state?.waiting?.reason === 'CreateContainerConfigError',
    );
    expect(status.phase).toBe('Pending');
    expect(status.containerStatuses?.[0]?.state?.waiting?.message).toMatch(message);
    return created.metadata.name;
  };
  it('Variable Expansion should allow substituting values in a volume subpath', async () => {
    expect(await bench.outputOf(subPathPod('$(POD_NAME)', 'echo text > /logscontainer/file; cat /testcontainer/$POD_NAME/file'))).toBe(
      'text\n',
    );
  });
  it('Variable Expansion should fail substituting values in a volume subpath with backticks', async () => {
    bench.forget(
      await expectFailure('..', {}, /must not contain/).catch(async (error: Error) => {
        expect(error.message).toMatch(/422/); // rejected before any kubelet receives it
        return 'nobody';
      }),
    );
    bench.forget(await expectFailure('$(ANNOTATION)', { annotations: { mysubpath: '../etc' } }, /\.\./));
  });
  it('Variable Expansion should fail substituting values in a volume subpath with absolute path', async () => {
    bench.forget(await expectFailure('$(ANNOTATION)', { annotations: { mysubpath: '/tmp' } }, /must not be an absolute path|relative/));
  });
  it('Variable Expansion should verify that a failing subpath expansion can be modified during the lifecycle of a container', async () => {
    const name = await expectFailure('$(ANNOTATION)/$(POD_NAME)', { annotations: { mysubpath: '/tmp' } }, /relative|absolute/);
    await bench.merge(`${bench.at('pods')}/${name}`, { metadata: { annotations: { mysubpath: 'mypath' } } });
    await bench.running(name);
    expect(await bench.exec(name, 'ls', '/testcontainer/mypath')).toBe(`${name}\n`);
    bench.forget(name);
  });
  it('Variable Expansion should succeed in writing subpaths in container', async () => {
    const { metadata } = await bench.start(subPathPod('$(ANNOTATION)/$(POD_NAME)', 'sleep 600'), { annotations: { mysubpath: 'foo' } });
    await bench.exec(metadata.name, 'touch', '/logscontainer/test.log');
    await bench.exec(metadata.name, 'test', '-f', `/testcontainer/foo/${metadata.name}/test.log`);
    await bench.merge(`${bench.at('pods')}/${metadata.name}`, { metadata: { annotations: { mysubpath: 'mynewpath' } } });
    await bench.exec(metadata.name, 'test', '-f', '/logscontainer/test.log');
    bench.forget(metadata.name);
  });
}
