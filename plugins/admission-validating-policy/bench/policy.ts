// Measures the cost of a policy with three expressions per request. Run: npm run bench -- validating-policy
import { namespaces, pods, validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '@oarlock/api/resources';
import { kubernetesEnvironment } from '@oarlock/cel/checker/environment';
import { compile } from '@oarlock/cel/program';
import { dyn } from '@oarlock/cel/types/type';
import type { Value } from '@oarlock/cel/values/value';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission } from '@oarlock/spi/admission';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import { Client, Informers } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import plugin from '../src/plugin.ts';
import { openAuthz } from '../test/open-authz.ts';

const expressions = [
  "object.spec.containers.all(c, c.image.matches('^registry\\\\.example\\\\.com/'))",
  "object.spec.containers.all(c, has(c.resources) && has(c.resources.limits) && 'memory' in c.resources.limits)",
  "has(object.metadata.labels) && object.metadata.labels.exists(k, k == 'app.kubernetes.io/name')",
];
const pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name: 'p', labels: { app: 'x', 'app.kubernetes.io/name': 'y' } },
  spec: {
    containers: ['a', 'b', 'c'].map((name) => ({
      name,
      image: `registry.example.com/team/${name}:v1`,
      resources: { limits: { memory: '64Mi', cpu: '1' } },
    })),
  },
};

function report(name: string, runs: number, ms: number): void {
  process.stdout.write(`${name.padEnd(60)} ${((ms * 1000) / runs).toFixed(2).padStart(8)} µs\n`);
}

const env = kubernetesEnvironment({ variables: { object: dyn } });
const programs = expressions.map((source) => {
  const { program, message } = compile(source, env);
  if (program === undefined) throw new Error(message);
  return program;
});
const bindings = { object: pod as unknown as Value };
const runs = 50_000;
for (const warm of [true, false]) {
  const from = performance.now();
  for (let i = 0; i < runs; i++)
    for (const program of programs)
      if (program.evaluate(bindings, 1_000_000).value !== true) throw new Error(`not true: ${program.source}`);
  if (!warm) report('three expressions, evaluated', runs, performance.now() - from);
}
const from = performance.now();
for (let i = 0; i < 2000; i++) for (const source of expressions) compile(source, env);
report('three expressions, compiled', 2000, performance.now() - from);

const rules = [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }];
const elsewhere = [{ apiGroups: ['apps'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['deployments'] }];
for (const others of [0, 100]) {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(namespaces, { metadata: { name: 'd' } });
  for (let i = 0; i <= others; i++) {
    api.seed(validatingAdmissionPolicies, {
      kind: 'ValidatingAdmissionPolicy',
      metadata: { name: `p${i}` },
      spec: {
        matchConstraints: { resourceRules: i === 0 ? rules : elsewhere },
        validations: expressions.map((expression) => ({ expression })),
      },
    });
    api.seed(validatingAdmissionPolicyBindings, {
      metadata: { name: `b${i}` },
      spec: { policyName: `p${i}`, validationActions: ['Deny'] },
    });
  }
  const [admission] = new PluginHost({ clock })
    .provide(Client, api.client())
    .provide(Informers, api.informers)
    .add({ plugin: openAuthz() })
    .add({ plugin })
    .get(Admission);
  await api.settle();
  const request = admissionRequest('CREATE', pods, pod);
  for (const warm of [true, false]) {
    const began = performance.now();
    for (let i = 0; i < runs / 5; i++) if (!(await admission?.validate?.(request))?.allowed) throw new Error('refused');
    if (!warm) report(`a request under a policy of three, ${others} policies for others`, runs / 5, performance.now() - began);
  }
  await api.stop();
}
