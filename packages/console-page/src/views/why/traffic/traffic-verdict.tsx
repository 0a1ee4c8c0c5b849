import type { Labels } from '@oarlock/api/selectors/label-selector';
import { explainTraffic, type TrafficDecision, type TrafficEnd } from '@oarlock/network-policy/explain-traffic';
import type { PolicyRules } from '@oarlock/network-policy/policy-rules';
import { portNumberOf, type TrafficPort } from '@oarlock/network-policy/traffic-port';
import { objectLink } from '../../../app/links.ts';
import { StatusDot } from '../../../components/status-dot.tsx';
import { text } from '../../../text/en.ts';
import { decisionText } from './decision-text.ts';
import { endOf, type Peer } from './peers.ts';
import type { TrafficQuery } from './traffic-question.tsx';

const { traffic } = text;

export interface TrafficVerdictProps {
  readonly question: TrafficQuery;
  readonly port: TrafficPort;
  readonly peers: readonly Peer[];
  readonly rules: readonly PolicyRules[];
  readonly namespaces: ReadonlyMap<string, Labels>;
}

/** The decision in each direction, with the policies and rules that decide. */
export function TrafficVerdict({ question, port, peers, rules, namespaces }: TrafficVerdictProps) {
  const [from, to] = [endOf(question.from, peers), endOf(question.to, peers)];
  if (from === undefined || to === undefined) return <Fault message={traffic.unknown(from === undefined ? question.from : question.to)} />;
  const number = portNumberOf(port, to.pod);
  if (number === undefined) return <Fault message={traffic.noPort(port.port, question.to)} />;
  const decisions = explainTraffic({ from, to, protocol: port.protocol, port: number }, rules, namespaces);
  const isAllowed = decisions.every(({ allowed }) => allowed);
  const words = isAllowed ? traffic.allowed : traffic.denied;
  return (
    <>
      <p role="status">
        <StatusDot health={isAllowed ? 'ok' : 'error'} label={words(question.from, question.to, `${number}/${port.protocol.toLowerCase()}`)} />
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label={traffic.policies}>
        <table class="plain-table">
          <thead>
            <tr>
              <th scope="col">{traffic.direction}</th>
              <th scope="col">{traffic.decision}</th>
            </tr>
          </thead>
          <tbody>
            <Row decision={decisions[0]} end={from} label={traffic.egress(question.from)} />
            <Row decision={decisions[1]} end={to} label={traffic.ingress(question.to)} />
          </tbody>
        </table>
      </div>
    </>
  );
}

const Fault = ({ message }: { readonly message: string }) => (
  <p class="error-message" role="alert">
    {message}
  </p>
);

function Row({ decision, end, label }: { readonly decision: TrafficDecision; readonly end: TrafficEnd; readonly label: string }) {
  return (
    <tr>
      <th scope="row" class="message">
        {label}
      </th>
      <td class="message">
        <StatusDot health={decision.allowed ? 'ok' : 'error'} label={decisionText(decision, end)} />
        <ul class="plain">
          {decision.isolatedBy.map((policy) => (
            <li key={policy}>
              <PolicyLink policy={policy} />
            </li>
          ))}
        </ul>
      </td>
    </tr>
  );
}

function PolicyLink({ policy }: { readonly policy: string }) {
  const [namespace = '', name = ''] = policy.split('/');
  const resource = { group: 'networking.k8s.io', version: 'v1', resource: 'networkpolicies' };
  return <a href={objectLink(resource, { namespace, name }, 'yaml')}>NetworkPolicy {policy}</a>;
}
