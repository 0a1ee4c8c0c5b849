import type {
  MutatingAdmissionPolicyBinding,
  MutatingWebhookConfiguration,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
} from '@oarlock/api/types/admissionregistration-v1';
import type { APIService } from '@oarlock/api/types/apiregistration-v1';
import type { FlowSchema, PriorityLevelConfiguration } from '@oarlock/api/types/flowcontrol-v1';
import { ageOf, nameOf, none, unset } from './cells.ts';
import { columnsOf, type Printer } from './printer.ts';

export const webhooksPrinter: Printer<MutatingWebhookConfiguration> = {
  columns: columnsOf('Name', { name: 'Webhooks', type: 'integer', description: 'The number of webhooks.' }, 'Age'),
  cells: (object, now) => [nameOf(object), object.webhooks?.length ?? 0, ageOf(object, now)],
};

interface Policy {
  readonly spec?: {
    readonly validations?: readonly unknown[];
    readonly mutations?: readonly unknown[];
    readonly paramKind?: { readonly apiVersion?: string; readonly kind?: string };
  };
}
const policyPrinter = (name: 'Validations' | 'Mutations'): Printer<ValidatingAdmissionPolicy> => ({
  columns: columnsOf(
    'Name',
    { name, type: 'integer', description: 'The number of expressions.' },
    { name: 'ParamKind', description: 'The kind of the policy parameters.' },
    'Age',
  ),
  cells(object, now) {
    const { spec } = object as Policy;
    const param = spec?.paramKind;
    return [
      nameOf(object),
      (name === 'Validations' ? spec?.validations : spec?.mutations)?.length ?? 0,
      param === undefined ? unset : `${param.apiVersion ?? ''}/${param.kind ?? ''}`,
      ageOf(object, now),
    ];
  },
});
export const validatingPolicyPrinter = policyPrinter('Validations');
export const mutatingPolicyPrinter = policyPrinter('Mutations');

export const policyBindingPrinter: Printer<ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding> = {
  columns: columnsOf(
    'Name',
    { name: 'PolicyName', description: 'The policy that the binding applies.' },
    { name: 'ParamRef', description: 'The parameter object of the binding.' },
    'Age',
  ),
  cells(object, now) {
    const param = object.spec?.paramRef;
    const where =
      param === undefined
        ? unset
        : param.name
          ? `${param.namespace ? `${param.namespace}/` : '*/'}${param.name}`
          : `${param.namespace ? `${param.namespace}/` : '*/'}*`;
    return [nameOf(object), object.spec?.policyName ?? '', where, ageOf(object, now)];
  },
};

export const flowSchemaPrinter: Printer<FlowSchema> = {
  columns: columnsOf(
    'Name',
    { name: 'PriorityLevel', description: 'The priority level of the requests that match.' },
    { name: 'MatchingPrecedence', description: 'The precedence of the schema; lower values match first.' },
    { name: 'DistinguisherMethod', description: 'The method that distinguishes the flows of the schema.' },
    'Age',
    { name: 'MissingPL', description: 'True if the priority level does not exist.' },
  ),
  cells(object, now) {
    const dangling = object.status?.conditions?.find(({ type }) => type === 'Dangling')?.status ?? '?';
    return [
      nameOf(object),
      object.spec?.priorityLevelConfiguration?.name ?? none,
      object.spec?.matchingPrecedence ?? 0,
      object.spec?.distinguisherMethod?.type ?? none,
      ageOf(object, now),
      dangling,
    ];
  },
};

export const priorityLevelPrinter: Printer<PriorityLevelConfiguration> = {
  columns: columnsOf(
    'Name',
    { name: 'Type', description: 'Limited or Exempt.' },
    { name: 'NominalConcurrencyShares', description: 'The concurrency shares of the level.' },
    { name: 'Queues', description: 'The number of queues of the level.' },
    { name: 'HandSize', description: 'The number of queues that each flow is assigned to.' },
    { name: 'QueueLengthLimit', description: 'The maximum number of requests in each queue.' },
    'Age',
  ),
  cells(object, now) {
    const { spec } = object;
    const queuing = spec?.limited?.limitResponse?.queuing;
    const shares = spec?.limited?.nominalConcurrencyShares ?? spec?.exempt?.nominalConcurrencyShares;
    return [
      nameOf(object),
      spec?.type ?? '',
      shares ?? none,
      queuing?.queues ?? none,
      queuing?.handSize ?? none,
      queuing?.queueLengthLimit ?? none,
      ageOf(object, now),
    ];
  },
};

/**
 * Prints APIServices. The column Service is `Local` or the Service of the extension API server; the column Available contains the reason if the
 * server is not available.
 */
export const apiServicePrinter: Printer<APIService> = {
  columns: columnsOf(
    'Name',
    { name: 'Service', description: 'The Service that serves the API version; Local for this API server.' },
    { name: 'Available', description: 'True if the API version is available.' },
    'Age',
  ),
  cells(object, now) {
    const { service } = object.spec ?? {};
    const available = object.status?.conditions?.find(({ type }) => type === 'Available');
    return [
      nameOf(object),
      service === undefined ? 'Local' : `${service.namespace ?? ''}/${service.name ?? ''}`,
      available === undefined
        ? 'Unknown'
        : available.status === 'True' || !available.reason
          ? available.status
          : `${available.status} (${available.reason})`,
      ageOf(object, now),
    ];
  },
};
