import { text } from '../../text/en.ts';
import { fieldPaths } from './field-paths.ts';
import type { TabProps } from './object-page.tsx';

/** The fields of the object by the manager that owns them. */
export function FieldsTab({ object }: Pick<TabProps, 'object'>) {
  const { managedFields = [] } = object.metadata;
  if (managedFields.length === 0) return <p class="empty">{text.object.fieldsEmpty}</p>;
  return (
    <div class="tab-body">
      {managedFields.map(({ manager = '', operation = '', subresource, time, fieldsV1 = {} }, index) => (
        <section key={`${manager} ${operation} ${subresource} ${index}`}>
          <h2>{text.object.fieldsOwner(manager, subresource === undefined ? operation : `${operation}, ${subresource}`)}</h2>
          <p class="quiet-text">{time}</p>
          <ul class="pairs">
            {fieldPaths(fieldsV1).map((path) => (
              <li key={path}>
                <code>{path}</code>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}
