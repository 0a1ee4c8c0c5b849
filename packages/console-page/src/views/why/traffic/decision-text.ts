import type { TrafficDecision, TrafficEnd } from '@oarlock/network-policy/explain-traffic';
import { text } from '../../../text/en.ts';

const { traffic } = text;

/** Returns the decision with the rules that allow, such as `team/web spec.ingress[0]`. */
export function decisionText({ direction, allowed, isolatedBy, allowedBy }: TrafficDecision, { pod }: TrafficEnd): string {
  if (isolatedBy.length === 0) return pod === undefined ? traffic.notPod : traffic.open;
  if (!allowed) return traffic.deniedBy(isolatedBy.join(', '));
  return traffic.allowedBy(allowedBy.map(({ policy, rule }) => `${policy} spec.${direction}[${rule}]`).join(', '));
}
