"""A FIX acceptor: QuickFIX as it comes, without a line of the product's. It tells what it sees, a line each.

    acceptor.py PORT FOLDER BEGINSTRING SENDER PASSWORD [CERTIFICATE KEY]

SENDER is who may log on; PASSWORD is refused if it is another one, unless it is "-". Numbers are kept in FOLDER. The
variable ACCOUNT, if it is set, is what the answer to a Logon names in field 1. It ends when its standard input does.
"""

import os
import sys

import quickfix as fix


def tell(*words):
    print(*words, flush=True)


def field(message, part, tag):
    found = fix.StringField(tag)
    return part.getField(found).getString() if part.isSetField(tag) else ""


class Application(fix.Application):
    def __init__(self, password):
        super().__init__()
        self.password = password

    def onCreate(self, session):
        pass

    def onLogon(self, session):
        tell("logon")

    def onLogout(self, session):
        tell("logout")

    def toAdmin(self, message, session):
        account = os.environ.get("ACCOUNT")
        if account and field(message, message.getHeader(), 35) == "A":
            message.setField(fix.StringField(1, account))
        self.told("out", message)

    def fromAdmin(self, message, session):
        self.told("in", message)
        kind = field(message, message.getHeader(), 35)
        if kind == "A" and self.password != "-" and field(message, message, 554) != self.password:
            raise fix.RejectLogon("the password " + field(message, message, 554) + " is wrong")

    def toApp(self, message, session):
        pass

    def fromApp(self, message, session):
        pass

    def told(self, way, message):
        header = message.getHeader()
        words = [field(message, header, 35) + field(message, header, 34)]
        for tag, part in ((43, header), (112, message), (36, message), (7, message), (108, message), (141, message)):
            if part.isSetField(tag):
                words.append("%d=%s" % (tag, field(message, part, tag)))
        tell(way, *words)


def main():
    port, folder, begin, sender, password, *tls = sys.argv[1:]
    fixt = "DefaultApplVerID=FIX.5.0SP2\n" if begin == "FIXT.1.1" else ""
    settings = (
        "[DEFAULT]\nConnectionType=acceptor\nSocketAcceptHost=127.0.0.1\nSocketAcceptPort=%s\nSocketReuseAddress=Y\n"
        "StartTime=00:00:00\nEndTime=00:00:00\nNonStopSession=Y\nUseDataDictionary=N\nFileStorePath=%s\n"
        "CheckLatency=N\nLogonTimeout=20\nLogoutTimeout=20\n%s" % (port, folder, fixt)
    )
    if tls:
        settings += "ServerCertificateFile=%s\nServerCertificateKeyFile=%s\nCertificateVerifyLevel=0\n" % tuple(tls)
    settings += "[SESSION]\nBeginString=%s\nSenderCompID=BROKER\nTargetCompID=%s\n" % (begin, sender)
    path = folder + "/acceptor.cfg"
    with open(path, "w") as file:
        file.write(settings)
    settings = fix.SessionSettings(path)
    application, store = Application(password), fix.FileStoreFactory(settings)
    kind = fix.SSLSocketAcceptor if tls else fix.SocketAcceptor
    acceptor = kind(application, store, settings)
    acceptor.start()
    tell("listening")
    sys.stdin.read()
    acceptor.stop()


main()
