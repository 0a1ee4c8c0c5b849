import { useState } from 'preact/hooks';
import { errorText } from '../api/client.ts';
import { Dialog } from '../components/dialog.tsx';
import { text } from '../text/en.ts';
import { useApp } from './context.ts';
import { signOut, type SignedOut } from './session.ts';

export interface UserMenuProps {
  readonly onChanged: () => void;
  readonly onSignedOut: (result: SignedOut) => void;
}

/** The user of the session, who can sign out, or view the cluster as another user. */
export function UserMenu({ onChanged, onSignedOut }: UserMenuProps) {
  const { client, session, toast } = useApp();
  const [isOpen, setOpen] = useState(false);
  const { impersonation } = client;
  const viewAs = (user: string, groups: readonly string[]) => {
    client.impersonation = user === '' ? undefined : { user, groups };
    setOpen(false);
    onChanged();
  };
  const leave = () => {
    signOut(client).then(onSignedOut, (error: unknown) => toast('error', errorText(error)));
  };
  return (
    <div class="user">
      {impersonation === undefined ? (
        <span class="user-name" title={session.user?.groups.join(', ')}>
          <span class="visually-hidden">{text.user.signedInAs}</span> {session.user?.name}
        </span>
      ) : (
        <span class="viewing-as">
          {text.user.viewingAs(impersonation.user)}{' '}
          <button type="button" onClick={() => viewAs('', [])}>
            {text.user.stopViewing}
          </button>
        </span>
      )}
      <button type="button" class="quiet" onClick={() => setOpen(true)}>
        {text.user.viewAs}
      </button>
      <button type="button" class="quiet" onClick={leave}>
        {text.user.signOut}
      </button>
      {isOpen && <ViewAsDialog onClose={() => setOpen(false)} onApply={viewAs} />}
    </div>
  );
}

interface ViewAsDialogProps {
  readonly onClose: () => void;
  readonly onApply: (user: string, groups: readonly string[]) => void;
}

function ViewAsDialog({ onClose, onApply }: ViewAsDialogProps) {
  const [user, setUser] = useState('');
  const [groups, setGroups] = useState('');
  const submit = (event: Event) => {
    event.preventDefault();
    const names = groups.split(',').map((group) => group.trim());
    onApply(
      user.trim(),
      names.filter((name) => name !== ''),
    );
  };
  return (
    <Dialog title={text.user.viewAsTitle} onClose={onClose}>
      <form onSubmit={submit}>
        <p>{text.user.viewAsHelp}</p>
        <label>
          <span>{text.user.userName}</span>
          <input type="text" autofocus required value={user} onInput={({ currentTarget }) => setUser(currentTarget.value)} />
        </label>
        <label>
          <span>{text.user.groups}</span>
          <input type="text" value={groups} onInput={({ currentTarget }) => setGroups(currentTarget.value)} />
        </label>
        <div class="actions">
          <button type="button" onClick={onClose}>
            {text.cancel}
          </button>
          <button type="submit" class="primary">
            {text.user.apply}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
