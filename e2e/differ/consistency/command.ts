import { randomBytes } from 'node:crypto';
import { allKinds, type CorpusKind } from '../corpus/kinds.ts';
import type { DifferOptions } from '../options.ts';
import { jsonOf, valueAt } from '../request.ts';
import { forEachOf, prepareNamespace, removeNamespace } from '../target/case-runner.ts';
import type { Target } from '../target/target.ts';
import { applyOptionsAgree } from './apply-checks.ts';
import { createCustomKinds, removeCustomKinds } from './custom-kinds.ts';
import { discoveryAgrees } from './discovery-checks.ts';
import { fieldAgrees, fieldCasesOf } from './field-checks.ts';
import { fieldValidationAgrees } from './field-validation-checks.ts';
import { Findings, Probe } from './probe.ts';
import { listOptionsAgree, mediaTypesAgree, readsEqualCreate, statusIsSeparate, tablesAgree } from './read-checks.ts';
import { reportFindings } from './report.ts';
import { versionsAgree } from './version-checks.ts';
import { applyEqualsCreate, defaultsAreStable, dryRunEqualsRealRun, noChangeKeepsVersion, patchTypesAgree } from './write-checks.ts';

type Check = (probe: Probe) => Promise<void>;

const checksOf = (served: readonly CorpusKind[]): Readonly<Record<string, Check>> => ({
  'dry run = real run': dryRunEqualsRealRun,
  'apply = create': applyEqualsCreate,
  'get = list = watch = create': readsEqualCreate,
  'JSON = YAML = protobuf': mediaTypesAgree,
  'version = version': versionsAgree(served),
  'table of a list = table of a get': tablesAgree,
  'pages, selectors and encodings of a list': listOptionsAgree,
  'status subresource': statusIsSeparate,
  'no change = same resource version': noChangeKeepsVersion,
  'patch types = update': patchTypesAgree,
  'defaults of defaults = defaults': defaultsAreStable,
  'Strict = Warn = Ignore': fieldValidationAgrees,
  'options of apply': applyOptionsAgree,
  'discovery = aggregated discovery': discoveryAgrees,
});
/** Kinds whose status the API server itself changes after a write: answers that follow each other differ. */
const changedByServer: ReadonlySet<string> = new Set([
  'apiservices.apiregistration.k8s.io',
  'customresourcedefinitions.apiextensions.k8s.io',
  'flowschemas.flowcontrol.apiserver.k8s.io',
  'servicecidrs.networking.k8s.io',
  'servicecidrs.v1beta1.networking.k8s.io',
  'validatingadmissionpolicies.admissionregistration.k8s.io',
]);
const needsStillness: ReadonlySet<string> = new Set([
  'apply = create',
  'get = list = watch = create',
  'version = version',
  'no change = same resource version',
  'patch types = update',
  'dry run = real run',
  'Strict = Warn = Ignore',
  'options of apply',
]);
const fieldCheck = 'one field: dry run = real run = YAML = apply';
const concurrency = 8;

interface Run {
  readonly target: Target;
  readonly run: string;
  readonly findings: Findings;
  readonly isOver: () => boolean;
  readonly newName: () => string;
  /** The namespace of a kind: objects such as quotas and limits affect others in theirs. */
  readonly namespaceOf: (kind: CorpusKind) => string;
}

/** Compares answers of one cluster with each other. Returns the number of findings. */
export async function checkConsistency(options: DifferOptions, target: Target): Promise<number> {
  const run = `differ-${randomBytes(4).toString('hex')}`;
  const findings = new Findings();
  const deadline = performance.now() + options.seconds * 1000;
  let names = 0;
  const custom = await createCustomKinds(target, run);
  const served = [...(await servedKinds(target)), ...custom];
  const namespaceOf = ({ kind }: CorpusKind) => `${run}-${kind.resource}-${kind.version}`;
  const namespaces = [...new Set(served.map(namespaceOf))];
  try {
    await forEachOf(namespaces, { limit: concurrency, isOver: () => false }, (each) => prepareNamespace(target, each));
    const context: Run = {
      target,
      run,
      findings,
      isOver: () => findings.requests >= options.maxRequests || performance.now() > deadline,
      newName: () => `${run}-${String((names += 1)).padStart(7, '0')}`,
      namespaceOf,
    };
    const chosen = Object.entries(checksOf(served)).filter(([name]) => isChosen(options.only, name));
    await checkKinds(context, served, chosen);
    if (isChosen(options.only, fieldCheck)) await checkFields(context, served, options.seed);
  } finally {
    await removeCustomKinds(target, run);
    await forEachOf(namespaces, { limit: concurrency, isOver: () => false }, (each) => removeNamespace(target, each));
  }
  return reportFindings(findings, { kinds: served.length, print: console.log });
}

const isChosen = (only: readonly string[], name: string): boolean => only.length === 0 || only.some((part) => name.includes(part));

/** Runs each check on each kind. Checks of one kind run one after another. */
async function checkKinds(run: Run, kinds: readonly CorpusKind[], checks: readonly (readonly [string, Check])[]): Promise<void> {
  await forEachOf(kinds, { limit: concurrency, isOver: run.isOver }, async (kind) => {
    for (const [check, work] of checks) {
      if (run.isOver() || (changedByServer.has(kind.id) && needsStillness.has(check))) continue;
      await withProbe(run, { kind, check }, work);
    }
  });
}

async function checkFields(run: Run, kinds: readonly CorpusKind[], seed: number): Promise<void> {
  const still = kinds.filter(({ id }) => !changedByServer.has(id));
  await forEachOf(fieldCasesOf(still, seed), { limit: concurrency, isOver: run.isOver }, async (each) => {
    await withProbe(run, { kind: each.kind, check: fieldCheck }, (probe) => fieldAgrees(probe, each));
  });
}

async function withProbe(run: Run, { kind, check }: { readonly kind: CorpusKind; readonly check: string }, work: Check): Promise<void> {
  const { target, findings, newName, namespaceOf } = run;
  const probe = new Probe({ target, kind, namespace: namespaceOf(kind), check, findings, newName });
  try {
    await work(probe);
  } finally {
    await probe.cleanUp();
  }
}

/** Returns the kinds in the versions that the cluster serves. */
async function servedKinds(target: Target): Promise<readonly CorpusKind[]> {
  const versions = new Set(allKinds.map(({ apiVersion }) => apiVersion));
  const served = new Set<string>();
  for (const version of versions) {
    const answer = await target.send({ method: 'GET', path: version.includes('/') ? `/apis/${version}` : `/api/${version}` });
    const resources = (valueAt(jsonOf(answer), 'resources') ?? []) as readonly { readonly name: string }[];
    for (const { name } of resources) served.add(`${version} ${name}`);
  }
  return allKinds.filter(({ apiVersion, kind }) => served.has(`${apiVersion} ${kind.resource}`));
}
