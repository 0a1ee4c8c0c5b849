import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';

const annotation = 'api-approved.kubernetes.io';
const missing = `protected groups must have approval annotation "${annotation}", see https://github.com/kubernetes/enhancements/pull/1111`;

/** The meaning of the annotation api-approved.kubernetes.io. */
export interface ApiApproval {
  readonly status: 'approved' | 'bypassed' | 'refused';
  readonly reason: 'ApprovedAnnotation' | 'UnapprovedAnnotation' | 'MissingAnnotation' | 'InvalidAnnotation';
  readonly value: string;
  readonly message: string;
}

/** Returns the approval state of a definition; undefined if its group needs no approval (KEP-1111). */
export function apiApprovalOf({ metadata, spec }: CustomResourceDefinition): ApiApproval | undefined {
  const { group = '' } = spec ?? {};
  if (!['k8s.io', 'kubernetes.io'].some((owner) => group === owner || group.endsWith(`.${owner}`))) return undefined;
  const value = metadata?.annotations?.[annotation] ?? '';
  if (value === '') return { status: 'refused', reason: 'MissingAnnotation', value, message: missing };
  if (value.startsWith('unapproved'))
    return { status: 'bypassed', reason: 'UnapprovedAnnotation', value, message: `not approved: ${JSON.stringify(value)}` };
  if (URL.canParse(value)) return { status: 'approved', reason: 'ApprovedAnnotation', value, message: `approved in ${value}` };
  const message = `protected groups must have approval annotation "${annotation}" with either a URL or a reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111`;
  return { status: 'refused', reason: 'InvalidAnnotation', value, message };
}
