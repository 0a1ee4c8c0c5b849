import type { FieldError } from '@oarlock/api/field/field-error';
import { applyDefaults } from '@oarlock/api/defaulting/apply-defaults';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import type { KubeObject } from '@oarlock/api/object';
import { forbidden } from '@oarlock/api/status';
import type { AdmissionAttributes } from '../../admission/admission-attributes.ts';
import { prepareForCreate, prepareForSubresourceUpdate, prepareForUpdate } from '../../registry/prepare.ts';
import { toServed, withDefaults, withEmptyFields, type ServedKind } from '../../registry/served-kind.ts';
import {
  withMetadata,
  type AllocatedObject,
  type Allocation,
  type StrategyContext,
  type SubresourceStrategy,
} from '../../registry/strategy.ts';
import { validateForCreate, validateForUpdate } from '../../registry/validation.ts';
import { warningsAbout } from '@oarlock/api/validation/object-warnings';
import { withoutDuplicateOwners } from './owner-references.ts';
import type { RegistryDependencies } from '../../registry/registry-dependencies.ts';
import { conformAdmitted } from '../request/body.ts';
import { writeOptions } from '../request/request-options.ts';
import type { RequestContext } from '../request/request-context.ts';
import type { EncodedObject } from '../request/response.ts';
import { DerivedObject } from '../../watch-cache/item.ts';
import { restoreManagedFields, restoreUndecodableManagers } from './managed-fields/tracking.ts';
import type { RequestScope } from '../../registry/request-scope.ts';

/**
 * The values that the steps of one write share. A write runs these steps in order:
 *
 * decode -> trackFields -> mutate -> prepare -> validate -> admit -> commit -> encode
 *
 * The object has these forms: `submitted` (decoded, with managedFields), `admitted` (after mutating admission), `stored` (after the strategy, in the
 * storage version for built-in kinds) and `returned` (the same object in the served version). A step returns a promise only if a plugin, an
 * allocator or a webhook does.
 */
export interface WriteOperation extends RequestScope {
  /** The attributes of mutating and validating admission, without the object. */
  readonly attributes: Omit<AdmissionAttributes, 'object'>;
  /** The strategy of the subresource that is written; undefined for the object itself. */
  readonly subresource?: SubresourceStrategy | undefined;
  /** What admission decides on in place of the object; undefined for the object itself. */
  readonly admissionView?: AdmissionView | undefined;
}

/** The object of another kind that a subresource shows of an object: the Scale of a custom resource. */
export interface AdmissionView {
  of(object: KubeObject): KubeObject;
  /** Returns `object` with the fields that the view shows of it. Other changes of the view are ignored. */
  applied(object: KubeObject, view: KubeObject): KubeObject;
}

/** Returns the write operation of a request that creates an object. */
export function newCreateOperation(registry: RegistryDependencies, kind: ServedKind, context: RequestContext): WriteOperation {
  const options = writeOptions(context.request.query, 'CreateOptions');
  return { registry, kind, context, attributes: { operation: 'CREATE', resource: kind.resource, old: undefined, options } };
}

/**
 * Rejects a new custom resource whose definition is being deleted, whether a create or server-side apply makes it.
 * @throws StatusError Forbidden
 */
export function forbidWhileTerminating({ resource, customResource }: ServedKind, name: string): void {
  if (customResource?.isTerminating === true)
    throw forbidden(resource, name, 'create not allowed while custom resource definition is terminating');
}

/** An object that its strategy has prepared and that has not been validated. */
export interface PreparedObject {
  readonly stored: KubeObject;
  readonly returned: KubeObject;
  readonly strategyContext: StrategyContext;
  /** The writes that are committed together with the object. */
  readonly allocation: Allocation | undefined;
}

/** Runs mutating admission. @throws StatusError of the first plugin that denies the request */
export function mutate(operation: WriteOperation, submitted: KubeObject): KubeObject | Promise<KubeObject> {
  const { registry, kind, context, attributes, admissionView } = operation;
  if (admissionView !== undefined) return mutateView(operation, admissionView, submitted);
  const conform = (mutated: KubeObject) => withoutDuplicateOwners(conformMutated(operation, mutated, submitted), context, true);
  if (!registry.admission.mutates(attributes.operation, kind.resource, context.request.subresource)) return conform(submitted);
  const mutated = registry.admission.mutate(context, { ...attributes, object: submitted });
  return mutated instanceof Promise ? mutated.then(conform) : conform(mutated);
}

async function mutateView(
  { registry, kind, context, attributes }: WriteOperation,
  view: AdmissionView,
  submitted: KubeObject,
): Promise<KubeObject> {
  if (!registry.admission.mutates(attributes.operation, kind.resource, context.request.subresource)) return submitted;
  const object = view.of(submitted);
  const mutated = await registry.admission.mutate(context, { ...attributes, object });
  return mutated === object ? submitted : view.applied(submitted, mutated);
}

function conformMutated({ kind, context }: WriteOperation, mutated: KubeObject, submitted: KubeObject): KubeObject {
  if (mutated === submitted) return submitted;
  return withDefaults(kind, restoreUndecodableManagers(conformAdmitted(mutated, submitted, kind), submitted), context.now);
}

/** Prepares a new object: sets the fields that the server owns, including a new uid, calls the strategy, and allocates addresses and ports. */
export function prepareNew({ registry, kind, context }: WriteOperation, admitted: KubeObject): PreparedObject | Promise<PreparedObject> {
  const strategyContext = newStrategyContext(context);
  const uid = registry.random.uuid();
  const created = withEmptyFields(kind, prepareForCreate(kind, { object: toStoredVersion(kind, admitted), uid, context: strategyContext }));
  const finish = (allocated: AllocatedObject | undefined): PreparedObject => {
    const stored = restoreManagedFields(allocated?.object ?? created, admitted, undefined);
    return { stored, returned: toServedVersion(kind, stored), strategyContext, allocation: allocated?.reservation };
  };
  const allocated = kind.strategy.allocate?.(created, undefined, strategyContext);
  return allocated instanceof Promise ? allocated.then(finish) : finish(allocated);
}

/** Prepares an update of `old`. An update through a subresource makes no allocations. */
export function prepareExisting(
  { kind, context, subresource }: WriteOperation,
  admitted: KubeObject,
  old: KubeObject,
): PreparedObject | Promise<PreparedObject> {
  const strategyContext = newStrategyContext(context);
  const converted = withEmptyFields(kind, toStoredVersion(kind, admitted));
  const updated =
    subresource === undefined
      ? prepareForUpdate(kind, { object: converted, old, context: strategyContext })
      : prepareForSubresourceUpdate(kind, { rules: subresource, object: converted, old, context: strategyContext });
  const finish = (allocated: AllocatedObject | undefined): PreparedObject => {
    const stored = restoreManagedFields(allocated?.object ?? updated, admitted, old);
    return { stored, returned: toServedVersion(kind, stored), strategyContext, allocation: allocated?.reservation };
  };
  const allocated = subresource === undefined ? kind.strategy.allocate?.(updated, old, strategyContext) : undefined;
  return allocated instanceof Promise ? allocated.then(finish) : finish(allocated);
}

/**
 * Returns the object that a dry run would have stored, as a read would return it: in the served version, with the defaults and the pruning of reads.
 * @param options `revision` is that of the current object; 0 if there is none
 */
export async function dryRunResult(
  { kind, context }: RequestScope,
  stored: KubeObject,
  { key, revision }: { readonly key: string; readonly revision: number },
): Promise<EncodedObject> {
  const { codec } = kind.storedKind;
  const item = codec.item({ key, object: stored, value: codec.encode(stored), revision });
  const { object } = await toServed(kind, item, context.request);
  const { resourceVersion } = stored.metadata ?? {};
  return new DerivedObject(revision === 0 ? withMetadata(object, { resourceVersion }) : object, revision);
}

/** Returns an object of a built-in kind in the storage version, with the defaults of that version: kube-apiserver applies them when it decodes stored objects. */
function toStoredVersion({ conversion, storedKind }: ServedKind, object: KubeObject): KubeObject {
  return conversion === undefined ? object : applyDefaults(storedKind.resource, conversion.toStored(object));
}

/** Returns a stored object of a built-in kind in the served version. */
export function toServedVersion({ conversion }: ServedKind, stored: KubeObject): KubeObject {
  return conversion?.fromStored(stored) ?? stored;
}

/** Validates a new object. @throws StatusError Invalid if there are errors */
export function validateNew(operation: WriteOperation, name: string, prepared: PreparedObject): void {
  const { kind, context } = operation;
  const { stored, returned, strategyContext } = prepared;
  throwIfInvalid(operation, name, () => [
    ...validateForCreate(kind, returned, context.request.body),
    ...(kind.strategy.validate?.(stored, strategyContext) ?? []),
  ]);
}

/** Adds the warnings about a valid new object to the response, as upstream does before validating admission. */
export const warnAboutNew = (operation: WriteOperation, prepared: PreparedObject): void => warn(operation, prepared, undefined);
/** Adds the warnings about a valid update to the response. */
export const warnAboutExisting = (operation: WriteOperation, prepared: PreparedObject, old: ExistingObject): void =>
  warn(operation, prepared, old);

function warn({ kind, context }: WriteOperation, { stored, returned }: PreparedObject, old: ExistingObject | undefined): void {
  if (kind.customResource !== undefined) return;
  const { subresource } = context.request;
  const write = { object: returned, old: old?.returned, subresource: old === undefined ? '' : subresource };
  for (const message of warningsAbout(kind.gvk, write)) context.warn(message);
  if (subresource !== '' || kind.strategy.warnings === undefined) return;
  for (const message of kind.strategy.warnings(stored, old?.stored)) context.warn(message);
}

/** The current object, in the two versions that an update is compared with. */
export interface ExistingObject {
  /** The current object in the version of `PreparedObject.stored`. */
  readonly stored: KubeObject;
  /** The current object in the served version. */
  readonly returned: KubeObject;
}

/**
 * Validates an update. For an update through a subresource, the strategy of the kind is not called.
 * @throws StatusError Invalid if there are errors
 */
export function validateExisting(operation: WriteOperation, prepared: PreparedObject, old: ExistingObject): void {
  const { kind, context, registry, subresource } = operation;
  const { stored, returned, strategyContext } = prepared;
  const { name, subresource: subresourceName, body } = context.request;
  const update = { object: returned, old: old.returned, subresource: subresourceName, sent: body, now: registry.clock.now() };
  throwIfInvalid(operation, name, () => [
    ...(subresource?.validate?.(stored, old.stored, strategyContext) ?? validateForUpdate(kind, update)),
    ...(subresource === undefined ? (kind.strategy.validateUpdate?.(stored, old.stored, strategyContext) ?? []) : []),
  ]);
}

/** Runs validating admission. @throws StatusError of the first plugin that denies the request */
export function admit(
  { registry, context, attributes, admissionView }: WriteOperation,
  { returned }: PreparedObject,
): void | Promise<void> {
  return registry.admission.validate(context, { ...attributes, object: admissionView?.of(returned) ?? returned });
}

/** Runs a validation in a trace span. @throws StatusError Invalid if there are errors */
export function throwIfInvalid(
  { kind, context }: Pick<RequestScope, 'kind' | 'context'>,
  name: string,
  validate: () => readonly FieldError[],
): void {
  const span = context.startChildSpan('validation');
  const errors = validate();
  span?.end();
  if (errors.length > 0) throw invalidStatus({ group: kind.gvk.group, kind: kind.gvk.kind, name }, errors);
}

export function newStrategyContext(context: RequestContext): StrategyContext {
  const { identity, sourceAddress } = context.request;
  return {
    now: context.now,
    identity,
    ...(sourceAddress !== undefined && { sourceAddress }),
    dryRun: context.dryRun,
    takenReservations: context.takenReservations,
    warn: (message) => context.warn(message),
  };
}
