import { describeRule } from '@oarlock/api/rbac/policy-rules';
import { useState } from 'preact/hooks';
import { useApp } from '../../../app/context.ts';
import { useLoaded } from '../../../app/hooks.ts';
import { ErrorMessage } from '../../../components/error-message.tsx';
import { StatusDot } from '../../../components/status-dot.tsx';
import { fromYaml } from '../../../components/yaml-text.ts';
import { text } from '../../../text/en.ts';
import { accessLink, accessRequestOf, ruleRequestOf, type AccessRequest } from './access-request.ts';
import { explainAccess, type AccessAnswer } from './explain-access.ts';
import { RuleTable } from './rule-table.tsx';

const { access } = text;
const verbs = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection', 'impersonate', 'bind', 'escalate'];

/** Why a request is allowed or denied: the decisions of the authorizers, and every rule of the user compared with the request. */
export function AccessQuestion({ query }: { readonly query: Readonly<Record<string, string>> }) {
  const request = accessRequestOf(query);
  const [object, setObject] = useState('');
  return (
    <>
      <AccessForm key={JSON.stringify(request)} request={request} object={object} onObject={setObject} />
      {request.target !== '' && <Answer request={request} object={object} />}
    </>
  );
}

interface AccessFormProps {
  readonly request: AccessRequest;
  readonly object: string;
  onObject(yaml: string): void;
}

function AccessForm({ request, object, onObject }: AccessFormProps) {
  const { resources } = useApp();
  const [draft, setDraft] = useState(request);
  const [yaml, setYaml] = useState(object);
  const submit = (event: Event) => {
    event.preventDefault();
    onObject(yaml);
    location.hash = accessLink(draft);
  };
  const field = (name: keyof AccessRequest, label: string, more: { readonly list?: string; readonly required?: boolean } = {}) => (
    <label>
      <span>{label}</span>
      <input
        type="text"
        spellcheck={false}
        autocomplete="off"
        value={draft[name]}
        {...more}
        onInput={({ currentTarget }) => setDraft({ ...draft, [name]: currentTarget.value.trim() })}
      />
    </label>
  );
  return (
    <form onSubmit={submit}>
      <p class="quiet-text">{access.help}</p>
      <div class="controls">
        {field('verb', access.verb, { list: 'access-verbs', required: true })}
        {field('target', access.target, { list: 'access-targets', required: true })}
        {field('namespace', access.namespace)}
        {field('name', access.name)}
        {field('user', access.user)}
        {field('groups', access.groups)}
        <button type="submit" class="primary">
          {text.why.explain}
        </button>
      </div>
      <datalist id="access-verbs">
        {verbs.map((verb) => (
          <option key={verb} value={verb} />
        ))}
      </datalist>
      <datalist id="access-targets">
        {resources.map(({ group, resource }) => {
          const name = group === '' ? resource : `${resource}.${group}`;
          return <option key={name} value={name} />;
        })}
      </datalist>
      <details>
        <summary>{access.withObject}</summary>
        <label class="broad">
          <span>{access.object}</span>
          <textarea rows={8} spellcheck={false} value={yaml} onInput={({ currentTarget }) => setYaml(currentTarget.value)} />
        </label>
      </details>
    </form>
  );
}

function Answer({ request, object }: { readonly request: AccessRequest; readonly object: string }) {
  const { client, session } = useApp();
  const self = { user: session.user?.name ?? '', groups: session.user?.groups ?? [] };
  const { value, error, isLoading, reload } = useLoaded(`${JSON.stringify(request)} ${object}`, async (signal) =>
    explainAccess({ client, request, self, signal, ...(object.trim() !== '' && { object: fromYaml(object) }) }),
  );
  if (error !== undefined) return <ErrorMessage error={error} onRetry={reload} />;
  if (value === undefined) return <p role="status">{isLoading ? text.connection.connecting : ''}</p>;
  const user = request.user === '' ? (client.impersonation?.user ?? self.user) : request.user;
  return <Explanation answer={value} request={request} user={user} />;
}

function Explanation({ answer, request, user }: { readonly answer: AccessAnswer; readonly request: AccessRequest; readonly user: string }) {
  const { allowed, reason, rules, incomplete, steps } = answer;
  const { verb, target, namespace } = request;
  return (
    <>
      <p role="status">
        <StatusDot health={allowed ? 'ok' : 'error'} label={access.verdictOf(allowed, { user, verb, target, namespace })} />
      </p>
      {reason !== '' && <p>{reason}</p>}
      {steps === undefined ? (
        <p class="quiet-text">{access.noSteps}</p>
      ) : (
        <section aria-labelledby="access-steps">
          <h2 id="access-steps">{access.steps}</h2>
          <ol class="steps">
            {steps.map(({ plugin, decision, because = '' }) => (
              <li key={plugin}>
                <StatusDot health={decision === 'allow' ? 'ok' : decision === 'deny' ? 'error' : 'unknown'} label={`${plugin}: ${decision}`} /> {because}
              </li>
            ))}
          </ol>
        </section>
      )}
      <section aria-labelledby="access-rules">
        <h2 id="access-rules">{access.rules(rules.length)}</h2>
        {!rules.some(({ mismatches }) => mismatches.length === 0) && (
          <p>
            {access.missing} <code>{describeRule(missingRule(request))}</code>
          </p>
        )}
        {incomplete && <p class="quiet-text">{access.incomplete}</p>}
        <RuleTable rules={rules} isPath={target.startsWith('/')} />
      </section>
    </>
  );
}

/** Returns the rule that would allow a request and nothing else. */
function missingRule(request: AccessRequest) {
  const { verb, group = '', resource = '', name = '', path } = ruleRequestOf(request);
  if (path !== undefined) return { verbs: [verb], nonResourceURLs: [path] };
  return { verbs: [verb], apiGroups: [group], resources: [resource], ...(name !== '' && { resourceNames: [name] }) };
}
