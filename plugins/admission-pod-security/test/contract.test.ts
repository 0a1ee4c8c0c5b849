import { deployments, namespaces, pods } from '@oarlock/api/resources';
import type { Container, Pod, PodSpec } from '@oarlock/api/types/core-v1';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';
import { described, violations, type Level } from '../src/policy.ts';

const good: Container = {
  name: 'c',
  image: 'x',
  securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
};
const strict: Partial<PodSpec> = { securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } } };
const restrictedPod = (container: Partial<Container> = {}, spec: Partial<PodSpec> = {}): Pod => ({
  metadata: { namespace: 'd', name: 'p' },
  spec: { ...strict, containers: [{ ...good, ...container }], ...spec },
});
const plain = (container: Partial<Container> = {}, spec: Partial<PodSpec> = {}, annotations: Record<string, string> = {}): Pod => ({
  metadata: { namespace: 'd', name: 'p', annotations },
  spec: { containers: [{ name: 'c', image: 'x', ...container }], ...spec },
});
const found = (level: Level, pod: Pod, minor?: number) => described(violations({ level, minor }, pod));

describe('level baseline', () => {
  it.each<[string, Pod, string, number?]>([
    [
      'capabilities',
      plain({ securityContext: { capabilities: { add: ['SYS_TIME', 'CHOWN', 'NET_ADMIN'] } } }),
      'non-default capabilities (container "c" must not include "NET_ADMIN", "SYS_TIME" in securityContext.capabilities.add)',
    ],
    [
      'host namespaces',
      plain({}, { hostNetwork: true, hostPID: true, hostIPC: true }),
      'host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)',
    ],
    [
      'host paths',
      plain(
        {},
        {
          volumes: [
            { name: 'a', hostPath: { path: '/' } },
            { name: 'b', hostPath: { path: '/' } },
          ],
        },
      ),
      'hostPath volumes (volumes "a", "b")',
    ],
    [
      'host ports',
      plain({
        ports: [
          { containerPort: 1, hostPort: 80 },
          { containerPort: 2, hostPort: 443 },
        ],
      }),
      'hostPort (container "c" uses hostPorts 443, 80)',
    ],
    [
      'privileged',
      plain({ securityContext: { privileged: true } }),
      'privileged (container "c" must not set securityContext.privileged=true)',
    ],
    [
      'proc',
      plain({ securityContext: { procMount: 'Unmasked' } }),
      'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
    ],
    [
      'SELinux',
      plain({ securityContext: { seLinuxOptions: { type: 'mine', user: 'u', role: 'r' } } }),
      'seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: type "mine"; user may not be set; role may not be set)',
    ],
    [
      'an SELinux type before 1.31',
      plain({}, { securityContext: { seLinuxOptions: { type: 'container_engine_t' } } }),
      'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "container_engine_t")',
      30,
    ],
    ['an SELinux type since 1.31', plain({}, { securityContext: { seLinuxOptions: { type: 'container_engine_t' } } }), '', 31],
    [
      'seccomp',
      plain(
        { securityContext: { seccompProfile: { type: 'Unconfined' } } },
        { securityContext: { seccompProfile: { type: 'Unconfined' } } },
      ),
      'seccompProfile (pod and container "c" must not set securityContext.seccompProfile.type to "Unconfined")',
    ],
    [
      'seccomp by annotation',
      plain({}, {}, { 'seccomp.security.alpha.kubernetes.io/pod': 'unconfined' }),
      'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")',
      18,
    ],
    [
      'AppArmor by field',
      plain({ securityContext: { appArmorProfile: { type: 'Unconfined' } } }),
      'forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined")',
    ],
    [
      'AppArmor by annotation',
      plain({}, {}, { 'container.apparmor.security.beta.kubernetes.io/c': 'unconfined' }),
      'forbidden AppArmor profile (annotation container.apparmor.security.beta.kubernetes.io/c="unconfined")',
    ],
    [
      'sysctls',
      plain(
        {},
        {
          securityContext: {
            sysctls: [
              { name: 'kernel.msgmax', value: '1' },
              { name: 'net.ipv4.tcp_rmem', value: '1' },
            ],
          },
        },
      ),
      'forbidden sysctls (kernel.msgmax, net.ipv4.tcp_rmem)',
      31,
    ],
    ['sysctls since 1.29', plain({}, { securityContext: { sysctls: [{ name: 'net.ipv4.tcp_rmem', value: '1' }] } }), ''],
    [
      'host processes',
      plain({}, { securityContext: { windowsOptions: { hostProcess: true } } }),
      'hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)',
    ],
    [
      'hosts of probes',
      plain({ livenessProbe: { httpGet: { host: '10.0.0.1', port: 80 } } }),
      'probe or lifecycle host (container "c" uses probe or lifecycle host "10.0.0.1")',
    ],
    ['hosts of probes before 1.34', plain({ livenessProbe: { httpGet: { host: '10.0.0.1', port: 80 } } }), '', 33],
    [
      'every type of container',
      plain(
        {},
        {
          initContainers: [{ name: 'i', securityContext: { privileged: true } }],
          ephemeralContainers: [{ name: 'e', securityContext: { privileged: true } }],
        },
      ),
      'privileged (containers "i", "e" must not set securityContext.privileged=true)',
    ],
    ['nothing', plain(), ''],
  ])('%s', (_title, pod, expected, minor) => expect(found('baseline', pod, minor)).toBe(expected));
});

describe('level restricted', () => {
  it("reports all violations in upstream's order", () => {
    expect(found('restricted', plain())).toBe(
      'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), ' +
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), ' +
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), ' +
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
    );
    expect(found('restricted', restrictedPod())).toBe('');
  });
  it.each<[string, Pod, string, number?]>([
    [
      'volumes',
      restrictedPod(
        {},
        {
          volumes: [
            { name: 'a', hostPath: { path: '/' } },
            { name: 'b', nfs: { server: 's', path: '/' } },
            { name: 'c', emptyDir: {} },
          ],
        },
      ),
      'restricted volume types (volumes "a", "b" use restricted volume types "hostPath", "nfs")',
    ],
    [
      'user id 0',
      restrictedPod({ securityContext: { ...good.securityContext, runAsUser: 0 } }),
      'runAsUser=0 (container "c" must not set runAsUser=0)',
    ],
    ['user id 0 before 1.23', restrictedPod({ securityContext: { ...good.securityContext, runAsUser: 0 } }), '', 22],
    [
      'user id 0 in a user namespace',
      restrictedPod({ securityContext: { ...good.securityContext, runAsUser: 0 } }, { hostUsers: false }),
      '',
    ],
    [
      'runAsNonRoot=false',
      restrictedPod({ securityContext: { ...good.securityContext, runAsNonRoot: false } }),
      'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
    ],
    [
      'another capability',
      restrictedPod({ securityContext: { ...good.securityContext, capabilities: { drop: ['ALL'], add: ['CHOWN', 'NET_BIND_SERVICE'] } } }),
      'unrestricted capabilities (container "c" must not include "CHOWN" in securityContext.capabilities.add)',
    ],
    ['no seccomp profile before 1.19', restrictedPod({}, { securityContext: { runAsNonRoot: true } }), '', 18],
    ['a violation of baseline', restrictedPod({}, { hostNetwork: true }), 'host namespaces (hostNetwork=true)'],
    ['Windows', { spec: { os: { name: 'windows' }, securityContext: { runAsNonRoot: true }, containers: [{ name: 'c' }] } }, ''],
  ])('%s', (_title, pod, expected, minor) => expect(found('restricted', pod, minor)).toBe(expected));
});

const space = (name: string, labels: Record<string, string> = {}) => ({
  metadata: {
    name,
    labels: Object.fromEntries(Object.entries(labels).map(([key, value]) => [`pod-security.kubernetes.io/${key}`, value])),
  },
});
const inside = (namespace: string, pod: Pod): Pod => ({ ...pod, metadata: { ...pod.metadata, namespace } });
const privileged = plain({ securityContext: { privileged: true } });
const config = { exemptions: { usernames: ['trusted'], runtimeClasses: ['vm'], namespaces: ['exempt'] } };
const seeded = () =>
  openAdmission(plugin, {
    config,
    seed: (api) => {
      api.seed(
        namespaces,
        space('d'),
        space('base', { enforce: 'baseline' }),
        space('old', { enforce: 'restricted', 'enforce-version': 'v1.7' }),
        space('strict', { enforce: 'restricted' }),
        space('told', { warn: 'baseline', audit: 'restricted' }),
        space('exempt', { enforce: 'restricted' }),
      );
      api.seed(
        pods,
        inside('d', { ...privileged, metadata: { name: 'bad' } }),
        inside('d', { ...privileged, metadata: { name: 'worse' } }),
      );
    },
  });
const create = (namespace: string, pod: Pod, more: object = {}) => admissionRequest('CREATE', pods, inside(namespace, pod), more);

admissionContract('admission-pod-security', async () => ({
  ...(await seeded()),
  cases: [
    { title: 'a namespace without labels', request: create('d', privileged), expected: 'allowed' },
    { title: 'within baseline', request: create('base', plain()), expected: 'allowed' },
    {
      title: 'beyond baseline',
      request: create('base', privileged),
      expected: 'denied',
      message: 'violates PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)',
    },
    {
      title: 'the rules of another version',
      request: create('old', plain({}, { securityContext: { runAsNonRoot: true } })),
      expected: 'allowed',
    },
    {
      title: 'beyond restricted',
      request: create('strict', plain()),
      expected: 'denied',
      message: /^violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false/,
    },
    {
      title: 'an update of an existing violating pod',
      request: admissionRequest('UPDATE', pods, inside('strict', plain()), { old: inside('strict', plain()) }),
      expected: 'allowed',
    },
    {
      title: 'an update that adds a violation',
      request: admissionRequest('UPDATE', pods, inside('base', privileged), { old: inside('base', plain()) }),
      expected: 'denied',
    },
    {
      title: 'an ephemeral container',
      request: admissionRequest(
        'UPDATE',
        pods,
        inside('base', plain({}, { ephemeralContainers: [{ name: 'e', securityContext: { privileged: true } }] })),
        { old: inside('base', plain()), subresource: 'ephemeralcontainers' },
      ),
      expected: 'denied',
    },
    { title: 'an exempt user', request: create('strict', privileged, { identity: { name: 'trusted', groups: [] } }), expected: 'allowed' },
    { title: 'an exempt runtime class', request: create('strict', plain({}, { runtimeClassName: 'vm' })), expected: 'allowed' },
    { title: 'an exempt namespace', request: create('exempt', privileged), expected: 'allowed' },
    {
      title: 'a pod template, which only causes a warning',
      request: admissionRequest('CREATE', deployments, {
        metadata: { namespace: 'strict', name: 'x' },
        spec: { selector: {}, template: { spec: privileged.spec ?? { containers: [] } } },
      }),
      expected: 'allowed',
    },
    {
      title: 'an invalid level',
      request: admissionRequest('CREATE', namespaces, space('x', { enforce: 'strict' })),
      expected: 'denied',
      message: 'Invalid value: "strict": must be one of privileged, baseline, restricted',
    },
    {
      title: 'an invalid version',
      request: admissionRequest('CREATE', namespaces, space('x', { warn: 'baseline', 'warn-version': '1.24' })),
      expected: 'denied',
      message: 'Invalid value: "1.24": must be "latest" or "v1.x"',
    },
    {
      title: 'a valid version',
      request: admissionRequest('CREATE', namespaces, space('x', { enforce: 'baseline', 'enforce-version': 'v1.24' })),
      expected: 'allowed',
    },
  ],
}));

describe('admission-pod-security', () => {
  it('warns about and audits violations that it does not enforce', async () => {
    const opened = await seeded();
    const warnings: string[] = [];
    const notes: Record<string, string> = {};
    const more = { warn: (text: string) => warnings.push(text), annotate: (key: string, value: string) => void (notes[key] = value) };
    await opened.plugin.validate?.(create('told', privileged, more));
    expect(warnings).toEqual([
      'would violate PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)',
    ]);
    expect(notes['pod-security.kubernetes.io/enforce-policy']).toBe('privileged:latest');
    expect(notes['pod-security.kubernetes.io/audit-violations']).toMatch(/^would violate PodSecurity "restricted:latest": privileged/);
    warnings.length = 0;
    await opened.plugin.validate?.(
      admissionRequest(
        'CREATE',
        deployments,
        { metadata: { namespace: 'told', name: 'x' }, spec: { selector: {}, template: { spec: privileged.spec ?? { containers: [] } } } },
        more,
      ),
    );
    expect(warnings).toHaveLength(1);
    await opened.dispose();
  });

  it('warns about existing violating pods when a namespace becomes stricter', async () => {
    const opened = await seeded();
    const warnings: string[] = [];
    await opened.plugin.validate?.(
      admissionRequest('UPDATE', namespaces, space('d', { enforce: 'baseline' }), { old: space('d'), warn: (text) => warnings.push(text) }),
    );
    expect(warnings).toEqual([
      'existing pods in namespace "d" violate the new PodSecurity enforce level "baseline:latest"',
      'bad (and 1 other pod): privileged',
    ]);
    await opened.dispose();
  });
});
