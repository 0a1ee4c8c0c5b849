import type { RuleField } from '@oarlock/api/rbac/policy-rules';
import { StatusDot } from '../../../components/status-dot.tsx';
import { text } from '../../../text/en.ts';
import type { ComparedRule } from './explain-access.ts';

const { access } = text;
const maxShown = 100;
const resourceFields: readonly RuleField[] = ['verbs', 'apiGroups', 'resources', 'resourceNames'];
const pathFields: readonly RuleField[] = ['verbs', 'nonResourceURLs'];

/** Each rule of a user with the fields that match the request and those that do not. */
export function RuleTable({ rules, isPath }: { readonly rules: readonly ComparedRule[]; readonly isPath: boolean }) {
  const fields = isPath ? pathFields : resourceFields;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={access.rules(rules.length)}>
        <table class="plain-table">
          <thead>
            <tr>
              <th scope="col">{access.verdict}</th>
              {fields.map((field) => (
                <th key={field} scope="col">
                  {access.fields[field]}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rules.slice(0, maxShown).map(({ rule, mismatches }, index) => (
              <tr key={index}>
                <td>
                  <StatusDot health={mismatches.length === 0 ? 'ok' : 'unknown'} label={mismatches.length === 0 ? access.matches : access.differs} />
                </td>
                {fields.map((field) => (
                  <td key={field} class="message">
                    <Field values={rule[field] ?? []} isMismatch={mismatches.includes(field)} isOptional={field === 'resourceNames'} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rules.length > maxShown && <p class="quiet-text">{text.overview.first(maxShown)}</p>}
    </>
  );
}

function Field({ values, isMismatch, isOptional }: { readonly values: readonly string[]; readonly isMismatch: boolean; readonly isOptional: boolean }) {
  const words = values.length === 0 && isOptional ? access.any : values.map((value) => (value === '' ? '""' : value)).join(', ');
  return (
    <span class={isMismatch ? 'status-error' : undefined}>
      {isMismatch ? '✗ ' : '✓ '}
      <span class="visually-hidden">{isMismatch ? access.differs : access.matches} </span>
      {words}
    </span>
  );
}
