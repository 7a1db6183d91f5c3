// Keeps a lawyer on duty on every page and the desk up to date. It sends the same forms as the page and shows what changed in the
// response. On the desk it updates the whole desk, on other pages the bar with the offer. Without this script, the desk reloads
// automatically.
(() => {
  'use strict'
  const byId = id => document.getElementById(id)
  const desk = () => document.querySelector('[data-desk]')
  if (!desk()) return
  const source = desk().dataset.desk
  const whole = source === '/desk'
  if (whole) history.replaceState(null, '', source) // also after a form: the next request is for the desk itself, so a message is shown once
  const title = document.title
  let ahead = 0 // offset of this clock from the server, in ms
  let said = ''
  let warned = ''
  let sound = null

  const clock = () => Date.now() - ahead
  const left = text => Math.max(0, Date.parse(text) - clock())
  const minutes = ms => Math.floor(ms / 60000) + ':' + String(Math.floor(ms / 1000) % 60).padStart(2, '0')
  const synchronise = () => { ahead = Date.now() - Date.parse(desk().dataset.now) }

  const beep = () => {
    try {
      sound = sound || new AudioContext()
      for (const at of [0, 0.25]) {
        const tone = sound.createOscillator()
        tone.frequency.value = 880
        tone.connect(sound.destination)
        tone.start(sound.currentTime + at)
        tone.stop(sound.currentTime + at + 0.15)
      }
    } catch { /* sound is not available */ }
  }
  const announce = text => {
    if (text !== said) byId('desk-say').textContent = said = text
  }

  // On a phone, the reasons to decline open under the finger. A second tap or a double click must not choose one of them.
  let opened = 0
  document.addEventListener('click', event => {
    if (event.target.closest('[id^=decline-] > summary')) opened = Date.now()
    else if (event.detail && Date.now() - opened < 500 && event.target.closest('[id^=decline-] form')) event.preventDefault()
  }, true)

  let offer = desk().dataset.offer
  const noticed = () => {
    const d = desk().dataset
    announce(d.say)
    if (d.offer && d.offer !== offer) {
      beep()
      byId('desk-offer').scrollIntoView() // on a phone the offer is further down
      if (window.Notification && Notification.permission === 'granted' && document.hidden) new Notification(d.flash)
    }
    offer = d.offer
  }

  // refocus moves the focus to the element that replaced the focused one, or else to the next task. It never focuses another
  // button, which a person who is typing could press by mistake.
  const refocus = was => {
    const same = was.id && byId(was.id)
    const next = same || desk().querySelector('#desk-offer h2, #desk-case h2, [data-keep] h2') || desk().querySelector('h2') || byId('main')
    next.focus()
    if (same && was.selectionStart !== undefined) same.setSelectionRange(was.selectionStart, was.selectionEnd)
  }

  // Each page has its own form tokens. A part that is kept takes them over, so that repeating an action later is no duplicate.
  const tokens = node => [...node.querySelectorAll('input[name=csrf]')]
  const shape = node => {
    const copy = node.cloneNode(true)
    for (const token of tokens(copy)) token.remove()
    return copy.outerHTML
  }

  // merge updates the children of old to those of fresh, without touching text that is being written.
  const merge = (old, fresh) => {
    const focused = old.contains(document.activeElement) ? document.activeElement : null
    for (const [name, value] of Object.entries(fresh.dataset)) old.dataset[name] = value
    const known = new Map([...old.children].map(n => [n.id, n]))
    const shown = new Set([...fresh.children].map(n => n.id))
    let at = old.firstElementChild
    for (const next of [...fresh.children]) {
      const same = known.get(next.id)
      for (const part of same ? next.querySelectorAll('details[id]') : []) part.open = byId(part.id)?.open ?? part.open
      const kept = same && ('keep' in same.dataset ? same.dataset.status === next.dataset.status : shape(same) === shape(next))
      const token = kept && tokens(next)[0]
      if (token) for (const kin of tokens(same)) kin.value = token.value
      if (same && !kept && 'keep' in same.dataset) {
        for (const field of next.querySelectorAll('textarea, input[name=version]')) field.value = byId(field.id).value
        if (same.dataset.unsaved) next.dataset.unsaved = same.dataset.unsaved
      }
      const node = kept ? same : next
      if (node === at) {
        at = at.nextElementSibling
        continue
      }
      old.insertBefore(node, at)
    }
    while (at) {
      const gone = at
      at = at.nextElementSibling
      if (!gone.dataset.unsaved || shown.has(gone.id)) gone.remove() // keeps a note sent from another window while its text here is unsaved
    }
    if (focused && !focused.isConnected) refocus(focused)
    synchronise()
    tick()
    noticed()
  }
  const show = async (response, acted) => {
    const at = new URL(response.url).pathname
    if (at === '/staff/login') {
      signedOut()
      return
    }
    if (at !== source || !(response.headers.get('Content-Type') || '').startsWith('text/html')) {
      location.assign(response.url)
      return
    }
    const answer = new DOMParser().parseFromString(await response.text(), 'text/html')
    const fresh = answer.querySelector('[data-desk]')
    if (!fresh) { // the lawyer has no access, or the service failed
      if (response.status < 500) standAside(answer.body)
      return
    }
    if (fresh.dataset.who !== desk().dataset.who) { // another person signed in in this browser
      signedOut()
      return
    }
    if (Date.parse(fresh.dataset.now) < Date.parse(desk().dataset.now)) return // a later response arrived first
    if (!acted) fresh.querySelector('#desk-alerts').replaceWith(byId('desk-alerts').cloneNode(true)) // keep the message of the last action
    const session = desk().dataset.csrf.split('.')[0]
    merge(desk(), document.importNode(fresh, true))
    if (out || acted || session !== desk().dataset.csrf.split('.')[0]) signedIn()
  }

  // Unsaved text survives the end of the session: the page stays and saves the text once the same lawyer has signed in again.
  // Without unsaved text the page is left, so that nobody else at the screen can read it.
  let out = false
  let leaving = false // a note is being sent; its response is the next page
  const unsaved = () => typed || document.querySelector('[data-keep][data-unsaved]')
  const signedOut = () => {
    if (leaving) return
    if (!unsaved()) {
      location.reload()
      return
    }
    stream.close()
    lost(false)
    clearTimeout(again)
    again = setTimeout(async () => { if (!await refresh()) signedOut() }, 5000)
    if (out) return
    out = true
    byId('desk-out').hidden = false
    byId('desk-out').scrollIntoView()
  }
  // signedIn also saves after an action, because a lawyer who signed in elsewhere must take over the consultation first.
  const signedIn = () => {
    const was = out
    out = false
    if (was) follow()
    byId('desk-out').hidden = true
    for (const form of document.querySelectorAll('[data-keep][data-unsaved] form[data-draft]')) save(form)
  }
  // standAside replaces this page by the response. A new request would only get the sign-in page.
  const standAside = body => {
    if (leaving) return
    if (unsaved()) {
      signedOut()
      return
    }
    stream.close()
    clearTimeout(again)
    clearInterval(ticking)
    window.removeEventListener('online', follow)
    document.body.replaceWith(document.importNode(body, true))
  }
  const look = () => { if (out && !document.hidden) refresh() }
  window.addEventListener('focus', look)
  document.addEventListener('visibilitychange', look)
  const refresh = async () => {
    try {
      await show(await fetch(source))
      return true
    } catch {
      lost(true)
      return false
    }
  }

  // On pages other than the desk, accepting an offer opens the desk, unless that would lose typed text.
  let typed = false
  document.addEventListener('input', event => { typed ||= !desk().contains(event.target) })

  const sending = new WeakSet()
  document.addEventListener('submit', event => {
    const form = event.target
    if (!desk().contains(form) || form.method !== 'post') return
    const by = event.submitter
    const action = (by && by.getAttribute('formaction')) || form.getAttribute('action')
    if (out) {
      event.preventDefault()
      byId('desk-out').focus()
      return
    }
    if (action.endsWith('/note')) { // a refused note comes back as typed
      clearTimeout(timers.get(form))
      const saving = writing.get(form)
      leaving = !saving
      if (!saving) return
      event.preventDefault() // so that the note does not overtake the draft of this window
      saving.then(() => form.requestSubmit(by))
      return
    }
    event.preventDefault()
    if (form.dataset.draft) {
      settle(form, by && by.value)
      return
    }
    if (sending.has(form)) return // disabling the button would lose the focus
    sending.add(form)
    const body = new URLSearchParams(new FormData(form, by))
    if (!whole && (typed || !action.endsWith('/accept'))) body.set('back', 'bar')
    fetch(action, { method: 'POST', body })
      .then(r => show(r, true)).catch(() => lost(true)).finally(() => sending.delete(form))
  })

  const timers = new Map()
  const writing = new Map() // per form: the draft that is being saved
  const clockTime = () => new Date(clock()).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', timeZone: desk().dataset.zone }) +
    '\u00a0' + desk().dataset.zoneName // in the format of the page

  // save stores the draft, one request at a time, because each one replaces the previous version.
  const save = async form => {
    clearTimeout(timers.get(form))
    await writing.get(form)
    const sent = put(form)
    writing.set(form, sent)
    await sent
    if (writing.get(form) === sent) writing.delete(form)
  }
  const put = async form => {
    const tell = form.querySelector('[data-draft-said]')
    const { note, preview, version } = form.elements
    const text = { note: note.value, preview: preview.value }
    try {
      const response = await fetch(form.dataset.draft, {
        method: 'PUT',
        headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': desk().dataset.csrf.split('.')[0] },
        body: JSON.stringify({ ...text, version: version.value })
      })
      const answer = await response.json()
      if ([401, 403].includes(response.status)) refresh() // signed out, or signed in again in another tab
      if (answer.code === 'DRAFT_CHANGED') await conflict(form)
      else if (response.ok) {
        version.value = answer.version
        if (note.value === text.note && preview.value === text.preview) delete form.closest('[data-keep]').dataset.unsaved
        tell.textContent = desk().dataset.saved.replace('%', clockTime())
      } else tell.textContent = desk().dataset.unsaved
    } catch { tell.textContent = desk().dataset.unsaved }
  }

  // conflict shows the draft of another window beside the text in this one. Nothing is saved until the lawyer has chosen.
  const conflict = async form => {
    const other = await (await fetch(form.dataset.draft)).json()
    const part = form.querySelector('[data-conflict]')
    const [otherNote, otherPreview] = part.querySelectorAll('textarea')
    otherNote.value = other.note
    otherPreview.value = other.preview
    part.dataset.version = other.version
    part.hidden = false
    form.querySelector('[data-draft-said]').textContent = desk().dataset.unsaved
  }
  const both = (mine, other) => mine === other || !other ? mine : `${mine}\n\n${other}`.replace(/^\n+/, '')
  const settle = (form, take) => {
    const part = form.querySelector('[data-conflict]')
    if (!part.hidden && take) {
      const [otherNote, otherPreview] = part.querySelectorAll('textarea')
      const { note, preview, version } = form.elements
      if (take === 'other') [note.value, preview.value] = [otherNote.value, otherPreview.value]
      if (take === 'both') [note.value, preview.value] = [both(note.value, otherNote.value), both(preview.value, otherPreview.value)]
      version.value = part.dataset.version || version.value
      part.hidden = true
      note.focus()
    }
    save(form)
  }
  document.addEventListener('input', event => {
    const form = event.target.form
    if (!form || !form.dataset.draft || event.target.readOnly) return
    form.closest('[data-keep]').dataset.unsaved = 'yes'
    clearTimeout(timers.get(form))
    if (form.querySelector('[data-conflict]').hidden) timers.set(form, setTimeout(() => save(form), 1500))
  })

  const tick = () => {
    for (const n of document.querySelectorAll('[data-until]')) n.textContent = minutes(left(n.dataset.until))
    for (const n of document.querySelectorAll('[data-bar]')) n.value = left(n.dataset.bar) / 1000
    for (const n of document.querySelectorAll('[data-since]')) n.textContent = minutes(Math.max(0, clock() - Date.parse(n.dataset.since)))
    const warn = byId('desk-warn')
    if (warn && left(warn.dataset.warnAt) <= 120000) {
      warn.hidden = false
      if (warned !== warn.dataset.warnAt) {
        warned = warn.dataset.warnAt
        announce(desk().dataset.warn)
        beep()
      }
    }
    document.title = desk().dataset.offer && Math.floor(clock() / 1000) % 2 ? desk().dataset.flash : title
  }

  let losing = 0
  const lost = yes => {
    clearTimeout(losing)
    if (yes) losing = setTimeout(() => { byId('desk-lost').hidden = false }, 3000)
    else byId('desk-lost').hidden = true
  }
  const silence = 40000 // ms without an event after which the stream is lost; the server sends one every 15 s
  let stream = null
  let heard = 0
  let again = 0
  const follow = () => {
    if (out) return
    clearTimeout(again)
    if (stream) stream.close()
    const here = stream = new EventSource('/api/desk/v1/events')
    const alive = () => {
      heard = Date.now()
      lost(false)
    }
    heard = Date.now()
    here.addEventListener('open', alive)
    here.addEventListener('idle', alive)
    here.addEventListener('state', event => {
      alive()
      if (event.lastEventId !== desk().dataset.version) refresh()
    })
    here.addEventListener('signed-out', () => {
      here.close()
      refresh()
    })
    here.addEventListener('error', () => {
      if (here !== stream || out) return
      if (here.readyState !== EventSource.CLOSED) { // the browser reconnects
        lost(true)
        return
      }
      refresh().then(there => lost(!there)) // refused, perhaps because of too many open windows; retried below
      again = setTimeout(follow, 8000)
    })
  }
  const watch = () => {
    if (out || Date.now() - heard < silence) return
    lost(true)
    follow()
  }
  window.addEventListener('offline', () => lost(true))
  window.addEventListener('online', follow)
  window.addEventListener('pagehide', () => stream.close())
  window.addEventListener('pageshow', event => { if (event.persisted) location.reload() })

  const ask = byId('desk-notify')
  if (window.Notification && Notification.permission === 'default') {
    ask.hidden = false
    ask.querySelector('button').addEventListener('click', async () => {
      await Notification.requestPermission()
      ask.hidden = true
    })
  }
  synchronise()
  tick()
  said = desk().dataset.offer ? '' : desk().dataset.say
  if (desk().dataset.offer) offer = ''
  noticed()
  const ticking = setInterval(() => { tick(); watch() }, 500)
  follow()
})()
